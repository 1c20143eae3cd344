"""Steps recorded as CUDA graphs: one launch instead of thousands."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

SHORT_OF_MEMORY = 16 * 2**30
"""With fewer bytes free on the device than a rehearsal has taken and these, what rehearsals leave cached is given back,
which waits for all that runs. What is recorded takes as much again: it has memory of its own, and while it is recorded
torch gives back nothing."""


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
