"""Lobster graphs: what they look like, and their distances against networkx."""

import networkx
import numpy as np
import pytest

from relational_transformer.lobster import Lobsters, sample, spread_sizes


def as_networkx(lobsters: Lobsters, number: int) -> networkx.DiGraph:
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(int(lobsters.num_nodes[number])))
    for node, parent in enumerate(lobsters.parents[number].tolist()):
        if parent >= 0:
            graph.add_edge(node, parent, weight=float(lobsters.up[number, node]))
            graph.add_edge(parent, node, weight=float(lobsters.down[number, node]))
    return graph


@pytest.mark.parametrize("weighted", [False, True])
def test_distances_are_those_networkx_finds(weighted: bool):
    lobsters = sample(spread_sizes(400, 2, 40), seed=5, weighted=weighted)
    for number in range(len(lobsters)):
        graph = as_networkx(lobsters, number)
        source, target = int(lobsters.sources[number]), int(lobsters.targets[number])
        assert source != target
        expected = networkx.dijkstra_path_length(graph, source, target)
        assert lobsters.distances[number] == pytest.approx(expected, abs=1e-5)


def test_every_graph_is_a_tree_whose_nodes_are_at_most_two_steps_from_its_spine():
    sizes = spread_sizes(100, 4, 34)
    lobsters = sample(sizes, seed=0)
    for number, size in enumerate(sizes.tolist()):
        graph = as_networkx(lobsters, number).to_undirected()
        assert networkx.is_tree(graph)
        spine = list(range(size))
        assert networkx.is_path(graph, spine)
        assert max(networkx.multi_source_dijkstra_path_length(graph, set(spine)).values()) <= 2


def test_sizes_are_spread_as_published():
    sizes = spread_sizes(10_000, 4, 34)
    assert np.array_equal(sizes, [int(index / 10_000 * 30 + 4) for index in range(10_000)])


@pytest.mark.parametrize(
    ("sizes", "mean", "largest"),
    [(spread_sizes(10_000, 4, 34), 22.9, range(48, 56)), (np.full(5_000, 100), 124.0, range(140, 156))],
)
def test_numbers_of_nodes_are_distributed_as_published(sizes: np.ndarray, mean: float, largest: range):
    lobsters = sample(sizes, seed=1)
    assert lobsters.num_nodes.mean() == pytest.approx(mean, abs=0.15)
    assert lobsters.num_nodes.max() in largest


def test_source_and_target_are_uniform_over_all_pairs():
    lobsters = sample(np.full(6_000, 4), seed=2)
    plain = lobsters.num_nodes == 4  # no leaves: 12 ordered pairs
    pairs = 4 * lobsters.sources[plain] + lobsters.targets[plain]
    values, counts = np.unique(pairs, return_counts=True)
    assert len(values) == 12
    assert counts.min() > 0.7 * counts.mean()


def test_weights_are_drawn_for_each_direction():
    lobsters = sample(np.full(200, 30), seed=3, weighted=True)
    for weights in (lobsters.up, lobsters.down):
        assert weights.min() >= 0.5
        assert weights.max() < 1.5
        assert weights.mean() == pytest.approx(1.0, abs=0.02)
    assert np.corrcoef(lobsters.up.flatten(), lobsters.down.flatten())[0, 1] == pytest.approx(0.0, abs=0.05)


def test_a_seed_gives_the_same_graphs_and_another_seed_others():
    sizes = np.full(50, 20)
    first, again, other = sample(sizes, seed=1), sample(sizes, seed=1), sample(sizes, seed=2)
    assert np.array_equal(first.parents, again.parents)
    assert np.array_equal(first.distances, again.distances)
    assert not np.array_equal(first.distances, other.distances)


def test_a_spine_of_one_node_is_refused():
    with pytest.raises(ValueError, match="at least 2 nodes"):
        sample(np.array([4, 1]), seed=0)
