"""Steps captured as CUDA graphs, one launch instead of thousands; their streams, and the memory that they take."""

import gc
import os
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

SHORT_OF_MEMORY = 16 * 2**30
"""Torch's cache is emptied before a capture unless this many bytes would stay free beside the memory that the warm-up
took. A capture takes as much memory again, in a pool of its own, and torch empties no cache during it. Emptying the
cache waits for everything that runs on the device."""

AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB$", re.MULTILINE)

SHARE_FOR_ACTIVATIONS = 0.6
"""The share of the memory that activations kept for a backward pass may fill."""

SHARE_TO_BEGIN = 0.9
"""The share of the memory that is free when a run begins, which its activations may fill."""

STREAMS = 32
"""Streams that torch has on a device; it hands them out in turn, and begins again after the last."""

_streams: WeakKeyDictionary[object, torch.cuda.Stream] = WeakKeyDictionary()
"""Streams that are taken, by their owners. The streams are no weak keys: in torch 2.11 a weak reference to a stream
that is collected in a cycle dangles, and Python crashes when it exits."""


class Graphs:
    """Steps of several kinds, each captured once as a CUDA graph. On a CPU a step is called directly.

    The graphs never run at the same time, so they share a memory pool.

    Args:
        changed: returns all tensors that the steps change; they are restored after a capture.
        beside: other graphs that never run at the same time either, whose memory pool is shared.
    """

    def __init__(
        self, device: torch.device, changed: Callable[[], Mapping[str, Tensor]], beside: "Graphs | None" = None
    ) -> None:
        self.device, self.changed = device, changed
        self._graphs: dict[Hashable, Callable[[], None]] = {}
        self._pool = _Pool([]) if beside is None else beside._pool
        self._pool.shared_by.append(self)

    def run(self, kind: Hashable, step: Callable[[], None], rehearsal: Callable[[], None] | None = None) -> None:
        """Run a step of this kind; the first one is captured. For `rehearsal` see `record`."""
        if self.device.type != "cuda":
            step()
            return
        if kind not in self._graphs:
            self._graphs[kind] = record(step, self.changed(), self.device, rehearsal=rehearsal, pool=self._pool.live)
        self._graphs[kind]()

    def record(self, kind: Hashable, step: Callable[[], None]) -> None:
        """Capture a step of this kind without running it."""
        if self.device.type == "cuda":
            self._graphs[kind] = record(step, self.changed(), self.device, pool=self._pool.live)

    @property
    def are_recorded(self) -> bool:
        """Whether any step has been captured."""
        return len(self._graphs) > 0

    def forget(self) -> None:
        """Drop all graphs: they hold the addresses of the tensors that they were captured with."""
        self._graphs.clear()


@dataclass
class _Pool:
    """The memory pool of graphs that never run at the same time."""

    shared_by: list[Graphs]
    handle: Any = None

    @property
    def live(self) -> Any:
        """The handle for the next capture. Torch refuses a pool all of whose graphs are gone, so the first graph, and
        the first one after all were dropped, gets a new pool."""
        if not any(graphs.are_recorded for graphs in self.shared_by):
            self.handle = torch.cuda.graph_pool_handle()
        return self.handle


def record(
    step: Callable[[], None],
    changed: Mapping[str, Tensor],
    device: torch.device,
    *,
    rehearsal: Callable[[], None] | None = None,
    pool: Any = None,
) -> Callable[[], None]:
    """Capture `step` as a CUDA graph for the current stream, and return a function that replays it there.

    Two warm-up runs come first, which compile functions, choose algorithms and load kernels. Afterwards all `changed`
    tensors are restored. Only the current stream is waited for, so other fleets may be running on theirs
    (`torch.cuda.graph` waits for all streams).

    Args:
        step: works on tensors at fixed addresses, and does not wait for the device.
        changed: all tensors that the step changes.
        device: a CUDA device.
        rehearsal: what the warm-up runs instead of `step`, such as the same step in less memory.
        pool: the memory pool shared with graphs that never run at the same time (`torch.cuda.graph_pool_handle()`).
    """
    kept = {name: tensor.clone() for name, tensor in changed.items()}

    def restore() -> None:
        for name, tensor in changed.items():
            tensor.copy_(kept[name])

    current = torch.cuda.current_stream(device)
    # The default stream cannot capture. Any other current stream captures itself: cuBLAS has a workspace for every
    # stream, and graphs that are captured on one stream and replayed on several at once would share it.
    own = current if current != torch.cuda.default_stream(device) else torch.cuda.Stream(device)
    own.wait_stream(current)
    reserved = torch.cuda.memory_reserved(device)
    with torch.cuda.stream(own):
        for _ in range(2):
            (rehearsal or step)()
            restore()
    gc.collect()  # garbage of the warm-up would keep its memory during the capture
    taken = max(0, torch.cuda.memory_reserved(device) - reserved)
    if torch.cuda.mem_get_info(device)[0] < taken + SHORT_OF_MEMORY:
        torch.cuda.empty_cache()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(own), _nothing_collected():
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            step()
        finally:
            graph.capture_end()
    current.wait_stream(own)
    restore()
    return graph.replay


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Switch the garbage collector off: a graph that is destroyed during a capture would spoil it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def own_stream(device: torch.device, owner: object) -> torch.cuda.Stream:
    """A stream that is not given to another owner in this process as long as this one lives.

    While a fleet's steps are captured on a stream, everything that is launched there is captured too.
    """
    taken = set(_streams.values())
    for _ in range(STREAMS):
        stream = torch.cuda.Stream(device)
        if stream not in taken:
            _streams[owner] = stream
            return stream
    raise ValueError(f"a device has {STREAMS} streams in a process, so at most {STREAMS} fleets can be trained at once")


def recomputed(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function whose activations are computed again in the backward pass. It is called as a step calls
    it, without anything that waits for the device."""
    return checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=False, determinism_check="none")


def saved_bytes(function: Callable[[], Any]) -> int:
    """Bytes that autograd keeps for the backward pass of `function`, each storage counted once."""
    sizes: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = function()
    del result
    return sum(sizes.values())


def free_bytes(device: torch.device) -> int:
    """Bytes that can still be allocated on the device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] + cached_bytes(torch.cuda.memory_snapshot(), device)
    try:
        found = AVAILABLE.search(Path("/proc/meminfo").read_text())
    except OSError:
        found = None
    if found is None:  # not Linux: free memory, without what file caches would give back
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 1024 * int(found[1])


def cached_bytes(segments: Sequence[Mapping[str, Any]], device: torch.device) -> int:
    """Bytes that torch has cached for any allocation. The memory pools of CUDA graphs do not count."""
    index = torch.cuda.current_device() if device.index is None else device.index
    for_all = [one for one in segments if one["device"] == index and tuple(one["segment_pool_id"]) == (0, 0)]
    return sum(one["total_size"] - one["allocated_size"] for one in for_all)


def usable_bytes(device: torch.device) -> int:
    """All memory of the device, whoever else trains there: how a run is trained must not depend on others."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def is_too_much_to_keep(needed: float, device: torch.device) -> bool:
    """Whether activations of `needed` bytes should be recomputed in the backward pass, because memory is short."""
    return needed > SHARE_FOR_ACTIVATIONS * usable_bytes(device)


class MemoryTakenError(Exception):
    """Other runs hold the memory that a run needs to begin."""


def check_room(needed: float, device: torch.device) -> None:
    """Refuse to begin a run on a GPU with fewer than `needed` bytes free. Torch keeps the memory pools of graphs that
    are gone until its cache is emptied."""
    if device.type != "cuda" or needed <= SHARE_TO_BEGIN * free_bytes(device):
        return
    torch.cuda.empty_cache()
    if needed > SHARE_TO_BEGIN * (free := free_bytes(device)):
        raise MemoryTakenError(
            f"training needs {needed / 2**30:.1f} GiB of {device}, of which others have left {free / 2**30:.1f} GiB"
        )
