"""The order of training graphs, and groups of similar size."""

from itertools import combinations

import numpy as np
import pytest

from relational_transformer.lobster import LobsterProtocol
from relational_transformer.regression.batches import draw, group_by_size, node_buckets


def test_every_epoch_shows_every_graph_once_in_another_order():
    index = draw((3,), 0, 10, 4, 20)[:, 0].reshape(2, 20)
    assert np.array_equal(np.sort(index), [np.arange(20)] * 2)
    assert not np.array_equal(index[0], index[1])


def test_a_batch_takes_from_the_next_epoch_what_this_one_lacks():
    index = draw((3,), 0, 3, 8, 20)[:, 0].flatten()
    assert np.array_equal(np.sort(index[:20]), np.arange(20))
    assert np.array_equal(index[20:], draw((3,), 5, 1, 4, 20).flatten())


def test_what_a_seed_sees_depends_on_nothing_else():
    whole = draw((0, 1, 2), 0, 12, 8, 20)
    assert np.array_equal(draw((2,), 7, 5, 8, 20)[:, 0], whole[7:, 2])


def test_groups_are_the_batch_sorted_by_size():
    num_nodes = np.random.default_rng(0).integers(4, 50, size=200)
    index = draw((0, 1), 0, 5, 32, 200)
    buckets = [16, 24, 32, 48, 56]
    drawn = group_by_size(index, num_nodes, buckets)
    assert drawn.index.shape == (5, 2, 2, 16)
    for step in range(5):
        for seed in range(2):
            grouped = drawn.index[step, :, seed].flatten()
            assert np.array_equal(np.sort(grouped), np.sort(index[step, seed]))
            assert np.all(np.diff(num_nodes[grouped]) >= 0)
        largest = num_nodes[drawn.index[step]].max(axis=(1, 2))
        assert drawn.num_nodes[step] == [min(size for size in buckets if size >= need) for need in largest]


def test_small_batches_have_fewer_groups():
    num_nodes = np.arange(4, 44)
    assert group_by_size(draw((0,), 0, 1, 32, 40), num_nodes, [48]).index.shape == (1, 2, 1, 16)
    assert group_by_size(draw((0,), 0, 1, 7, 40), num_nodes, [48]).index.shape == (1, 1, 1, 7)


@pytest.mark.parametrize("num_seeds", [1, 2, 20])
def test_few_sizes_have_room_for_every_group(num_seeds: int):
    num_nodes = LobsterProtocol().train_graphs().num_nodes
    buckets = node_buckets(num_nodes, num_seeds, batch_size=32)
    assert len(buckets) == 4
    assert all(size % 8 == 0 for size in buckets)
    assert 0 <= buckets[-1] - num_nodes.max() < 8


def test_the_sizes_are_those_that_pad_least():
    num_nodes = LobsterProtocol().train_graphs().num_nodes
    index = draw((0, 1), 0, 200, 32, len(num_nodes))

    def pairs(buckets: list[int]) -> float:
        return float((np.asarray(group_by_size(index, num_nodes, buckets).num_nodes) ** 2).mean())

    chosen = node_buckets(num_nodes, num_seeds=2, batch_size=32)
    others = [[*three, 56] for three in combinations(range(8, 56, 8), 3)]
    assert pairs(chosen) == min(map(pairs, others))


def test_graphs_of_one_size_need_one_bucket():
    assert node_buckets(np.full(40, 12), num_seeds=2, batch_size=8) == [16]


def test_groups_halve_the_work_of_padding():
    num_nodes = LobsterProtocol().train_graphs().num_nodes
    buckets = node_buckets(num_nodes, num_seeds=20, batch_size=32)
    index = draw(tuple(range(20)), 0, 20, 32, len(num_nodes))
    padded = np.asarray(group_by_size(index, num_nodes, buckets).num_nodes)  # [steps, G]
    assert np.all((padded**2).mean(axis=1) < 0.5 * buckets[-1] ** 2)
