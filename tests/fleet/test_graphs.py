"""Streams are given out once, as long as somebody has them."""

import itertools
import weakref

import pytest
import torch

from relational_transformer.fleet import graphs

DEVICE = torch.device("cuda", 0)


class Stream:
    """As torch gives them out: 32 of them, in turn."""

    numbers = itertools.count()

    def __init__(self, device: torch.device) -> None:
        self.number = next(self.numbers) % graphs.STREAMS

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)


class Owner:
    """A fleet that has a stream."""

    def __init__(self) -> None:
        self.stream = graphs.own_stream(DEVICE, self)


@pytest.fixture(autouse=True)
def _streams_of_a_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Stream", Stream)


def test_no_two_fleets_share_a_stream_however_many_have_been_trained():
    long_lived = Owner()
    for _ in range(100):
        assert Owner().stream != long_lived.stream


def test_more_fleets_than_streams_are_refused_in_one_sentence():
    fleets = [Owner() for _ in range(graphs.STREAMS)]
    assert len({fleet.stream for fleet in fleets}) == graphs.STREAMS
    with pytest.raises(ValueError, match="at most 32 fleets can be trained at once"):
        Owner()


def test_nothing_refers_weakly_to_a_stream():
    """Python crashes when it ends where a stream of torch 2.11 was collected that something had referred to so."""
    fleet = Owner()
    assert weakref.getweakrefcount(fleet.stream) == 0
