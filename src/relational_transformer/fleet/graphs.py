"""Steps recorded as CUDA graphs, one launch instead of thousands; their streams, and the memory that they take."""

import gc
import os
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

SHORT_OF_MEMORY = 16 * 2**30
"""With fewer bytes free on the device than a rehearsal has taken and these, what rehearsals leave cached is given back,
which waits for all that runs. What is recorded takes as much again: it has memory of its own, and while it is recorded
torch gives back nothing."""

AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB$", re.MULTILINE)

SHARE_FOR_ACTIVATIONS = 0.6
"""Of the memory, which what is kept for a backward pass may fill."""

SHARE_TO_BEGIN = 0.9
"""Of the memory that is free when a run begins, which what it keeps may fill."""

STREAMS = 32
"""That torch has on a device; it gives them out in turn, again and again."""

_streams: WeakKeyDictionary[object, torch.cuda.Stream] = WeakKeyDictionary()
"""By who has them. Not the streams themselves: a weak reference to a stream of torch 2.11 that is collected in a cycle
is left dangling, and Python crashes on it when it ends."""


class Graphs:
    """Steps of several kinds, each recorded once as a CUDA graph; on a CPU they are called as they are.

    The graphs never run at the same time, so they share their memory.

    Args:
        changed: gives all tensors that the steps change, which recording puts back.
        beside: others that never run at the same time either, and share their memory.
    """

    def __init__(
        self, device: torch.device, changed: Callable[[], Mapping[str, Tensor]], beside: "Graphs | None" = None
    ) -> None:
        self.device, self.changed, self._beside = device, changed, beside
        self._graphs: dict[Hashable, Callable[[], None]] = {}

    def run(self, kind: Hashable, step: Callable[[], None], rehearsal: Callable[[], None] | None = None) -> None:
        """Make a step of this kind, which is recorded the first time. For `rehearsal` see `record`."""
        if self.device.type != "cuda":
            step()
            return
        if kind not in self._graphs:
            self._graphs[kind] = record(step, self.changed(), self.device, rehearsal=rehearsal, pool=self._pool)
        self._graphs[kind]()

    def record(self, kind: Hashable, step: Callable[[], None]) -> None:
        """Record a step of this kind without making it."""
        if self.device.type == "cuda":
            self._graphs[kind] = record(step, self.changed(), self.device, pool=self._pool)

    @property
    def are_recorded(self) -> bool:
        """Whether anything is."""
        return len(self._graphs) > 0

    def forget(self) -> None:
        """Let go of all graphs: they hold the addresses of the tensors that they were recorded with."""
        self._graphs.clear()

    @cached_property
    def _pool(self) -> Any:
        if self._beside is not None:
            return self._beside._pool
        return torch.cuda.graph_pool_handle()


def record(
    step: Callable[[], None],
    changed: Mapping[str, Tensor],
    device: torch.device,
    *,
    rehearsal: Callable[[], None] | None = None,
    pool: Any = None,
) -> Callable[[], None]:
    """Record `step` as a CUDA graph for the current stream, and return what replays it there.

    The step is rehearsed first, to compile, choose algorithms and load kernels. Recording leaves everything as it was,
    and waits for nothing but this stream: other fleets may be under way on theirs (`torch.cuda.graph` waits for all).

    Args:
        step: works on tensors that stay where they are, and waits for nothing.
        changed: all tensors that it changes, which are put back.
        device: a CUDA device.
        rehearsal: what to rehearse instead, such as the same step in less memory.
        pool: memory shared with other graphs, none of which runs at the same time (`torch.cuda.graph_pool_handle()`).
    """
    kept = {name: tensor.clone() for name, tensor in changed.items()}

    def restore() -> None:
        for name, tensor in changed.items():
            tensor.copy_(kept[name])

    current = torch.cuda.current_stream(device)
    # The default stream records nothing. Any other is taken itself: cuBLAS has memory of its own for every stream, and
    # graphs that were recorded on one stream and run on several at once would share it.
    own = current if current != torch.cuda.default_stream(device) else torch.cuda.Stream(device)
    own.wait_stream(current)
    reserved = torch.cuda.memory_reserved(device)
    with torch.cuda.stream(own):
        for _ in range(2):
            (rehearsal or step)()
            restore()
    gc.collect()  # what the rehearsals have left in cycles would be kept beside what is recorded
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
    """A graph that is garbage and destroyed in here would spoil the one that is recorded."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def own_stream(device: torch.device, owner: object) -> torch.cuda.Stream:
    """A stream that nobody else of this process has as long as its owner lives.

    While one fleet's steps are recorded on a stream, nobody else may launch anything there: it would be recorded too.
    """
    taken = set(_streams.values())
    for _ in range(STREAMS):
        stream = torch.cuda.Stream(device)
        if stream not in taken:
            _streams[owner] = stream
            return stream
    raise ValueError(f"a device has {STREAMS} streams in a process, so at most {STREAMS} fleets can be trained at once")


def saved_bytes(function: Callable[[], Any]) -> int:
    """Bytes that autograd keeps for the backward pass of what `function` does, each storage counted once."""
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
    """Memory that may still be taken on the device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] + cached_bytes(torch.cuda.memory_snapshot(), device)
    try:
        found = AVAILABLE.search(Path("/proc/meminfo").read_text())
    except OSError:
        found = None
    if found is None:  # not Linux: what is free, without what caches of files would give back
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 1024 * int(found[1])


def cached_bytes(segments: Sequence[Mapping[str, Any]], device: torch.device) -> int:
    """What torch keeps and would give to anyone. What belongs to graphs, which others may not use, does not count."""
    index = torch.cuda.current_device() if device.index is None else device.index
    for_all = [one for one in segments if one["device"] == index and tuple(one["segment_pool_id"]) == (0, 0)]
    return sum(one["total_size"] - one["allocated_size"] for one in for_all)


def usable_bytes(device: torch.device) -> int:
    """Memory that a run may count on. Of a GPU it is all that there is, so that how a run is trained does not depend on
    who else trains there."""
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else free_bytes(device)


def is_too_much_to_keep(needed: float, device: torch.device) -> bool:
    """Whether so many bytes for the backward pass are better computed again than kept."""
    return needed > SHARE_FOR_ACTIVATIONS * usable_bytes(device)


class MemoryTakenError(Exception):
    """Others have the memory that a run needs to begin."""


def check_room(needed: float, device: torch.device) -> None:
    """Refuse to begin where a GPU has not so many bytes free."""
    if device.type == "cuda" and needed > SHARE_TO_BEGIN * (free := free_bytes(device)):
        raise MemoryTakenError(
            f"training needs {needed / 2**30:.1f} GiB of {device}, of which others have left {free / 2**30:.1f} GiB"
        )
