"""Streams of a CUDA device, one for every fleet."""

from weakref import WeakKeyDictionary

import torch

STREAMS = 32
"""That torch has on a device; it gives them out in turn, again and again."""

_streams: WeakKeyDictionary[object, torch.cuda.Stream] = WeakKeyDictionary()
"""By who has them. Not the streams themselves: a weak reference to a stream of torch 2.11 that is collected in a cycle
is left dangling, and Python crashes on it when it ends."""


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
