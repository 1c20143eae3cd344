"""Steps recorded as CUDA graphs, one launch instead of thousands, and the streams that they run on."""

import gc
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

SHORT_OF_MEMORY = 16 * 2**30
"""With fewer bytes free on the device than a rehearsal has taken and these, what rehearsals leave cached is given back,
which waits for all that runs. What is recorded takes as much again: it has memory of its own, and while it is recorded
torch gives back nothing."""

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
    """

    def __init__(self, device: torch.device, changed: Callable[[], Mapping[str, Tensor]]) -> None:
        self.device, self.changed = device, changed
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
