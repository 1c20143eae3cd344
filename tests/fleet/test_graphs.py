"""Streams are given out once, as long as somebody has them; graphs share a memory pool as long as one of them lives."""

import itertools
import weakref

import pytest
import torch

from relational_transformer.fleet import graphs
from tests.fleet.replaying import CUDA, FakeGraph, fake_graphs

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


def test_graphs_share_a_pool_until_all_of_them_are_dropped():
    """Torch ends with an internal error where a graph is captured into a pool whose graphs are all gone."""
    total = torch.zeros(1)

    def step() -> None:
        total.add_(1.0)

    with fake_graphs():
        first = graphs.Graphs(CUDA, dict)  # pyright: ignore[reportArgumentType]
        beside = graphs.Graphs(CUDA, dict, beside=first)  # pyright: ignore[reportArgumentType]
        first.record("short", step)
        beside.record("short", step)
        first.forget()
        first.run("long", step)
        assert [len(of_pool) for of_pool in FakeGraph.of_pools.values()] == [2]
        first.forget()
        beside.forget()
        first.record("long", step)
        beside.record("long", step)
        assert [len(of_pool) for of_pool in FakeGraph.of_pools.values()] == [0, 2]
