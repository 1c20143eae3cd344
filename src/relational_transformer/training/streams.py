"""Streams of a CUDA device, one for every fleet."""

from weakref import WeakSet

import torch

STREAMS = 32
"""That torch has on a device; it gives them out in turn, again and again."""

_taken: WeakSet[torch.cuda.Stream] = WeakSet()


def own_stream(device: torch.device) -> torch.cuda.Stream:
    """A stream that no other fleet of this process has.

    While one fleet's steps are recorded on a stream, nobody else may launch anything there: it would be recorded too.
    """
    for _ in range(STREAMS):
        stream = torch.cuda.Stream(device)
        if stream not in _taken:
            _taken.add(stream)
            return stream
    raise ValueError(f"a device has {STREAMS} streams in a process, so at most {STREAMS} fleets can be trained at once")
