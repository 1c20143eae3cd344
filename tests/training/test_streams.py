"""Streams are given out once, as long as somebody has them."""

import itertools

import pytest
import torch

from relational_transformer.training import streams

DEVICE = torch.device("cuda", 0)


class Stream:
    """As torch gives them out: 32 of them, in turn."""

    numbers = itertools.count()

    def __init__(self, device: torch.device) -> None:
        self.number = next(self.numbers) % streams.STREAMS

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)


def test_no_two_fleets_share_a_stream_however_many_have_been_trained(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    long_lived = streams.own_stream(DEVICE)
    for _ in range(100):
        assert streams.own_stream(DEVICE) != long_lived


def test_more_fleets_than_streams_are_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    fleets = [streams.own_stream(DEVICE) for _ in range(streams.STREAMS)]
    assert len(set(fleets)) == streams.STREAMS
    with pytest.raises(ValueError, match="at most 32 fleets can be trained at once"):
        streams.own_stream(DEVICE)
