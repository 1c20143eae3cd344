"""Streams of fresh batches: the same whatever the workers, new with every batch."""

from itertools import islice

import pytest

from relational_transformer.clrs import stream


def digests(batches, count):
    return [batch.digest() for batch in islice(batches, count)]


def test_the_number_of_workers_does_not_show():
    expected = digests(stream("minimum", 4, 8, seed=1), 7)
    for workers in (1, 3):
        batches = stream("minimum", 4, 8, seed=1, workers=workers)
        assert digests(batches, 7) == expected
        batches.close()


def test_every_batch_is_new_and_every_seed_different():
    batches = digests(stream("minimum", 4, 8, seed=1), 10) + digests(stream("minimum", 4, 8, seed=2), 10)
    assert len(set(batches)) == 20


def test_a_stream_can_be_taken_up_anywhere():
    assert digests(stream("bfs", 2, 6, seed=3, first_batch=4), 2) == digests(stream("bfs", 2, 6, seed=3), 6)[4:]


def test_batches_have_the_size_asked_for():
    batch = next(stream("bfs", 5, 7, seed=1))
    assert len(batch) == 5
    assert batch.num_nodes == 7


@pytest.mark.parametrize(
    "wrong", [{"name": "bsf"}, {"batch_size": 0}, {"length": 0}, {"seed": -1}, {"workers": -1}, {"first_batch": -1}]
)
def test_impossible_streams_are_refused_at_once(wrong):
    request = {"name": "bfs", "batch_size": 4, "length": 8, "seed": 1, **wrong}
    with pytest.raises(ValueError, match=r"It|it|Did you mean"):
        stream(**request)
