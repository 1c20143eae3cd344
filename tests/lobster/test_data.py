"""Batches of dense matrices made of trees."""

import numpy as np
import torch

from relational_transformer.lobster import sample
from relational_transformer.lobster.data import load_split
from tests.lobster.small import CPU
from tests.lobster.test_graphs import as_networkx


def test_edges_are_the_lengths_from_node_to_node():
    lobsters = sample(np.array([5, 9, 12]), seed=4, weighted=True)
    graphs, distances = load_split(lobsters, CPU).gather(torch.tensor([2, 0, 1]), num_nodes=20)
    for place, number in enumerate((2, 0, 1)):
        edges = graphs.edges[place, :, :, 0]
        expected = torch.zeros(20, 20)
        for start, end, weight in as_networkx(lobsters, number).edges(data="weight"):
            expected[start, end] = weight
        assert torch.equal(edges, expected)
        assert int(graphs.node_mask[place].sum()) == lobsters.num_nodes[number]
        assert distances[place] == lobsters.distances[number]


def test_nodes_are_one_hot_source_target_and_others():
    lobsters = sample(np.full(8, 6), seed=4)
    graphs, _ = load_split(lobsters, CPU).gather(torch.arange(8), num_nodes=20)
    assert torch.equal(graphs.nodes.sum(-1), torch.ones(8, 20))
    assert torch.equal(graphs.nodes[..., 0].argmax(-1), torch.from_numpy(lobsters.sources))
    assert torch.equal(graphs.nodes[..., 1].argmax(-1), torch.from_numpy(lobsters.targets))


def test_a_thinned_split_has_graphs_of_all_sizes():
    split = load_split(sample(np.arange(4, 34).repeat(10), seed=0), CPU)
    thinned = split.thinned(30)
    assert len(thinned) == 30
    assert torch.equal(thinned.distances, split.distances[::10])
    assert len(split.thinned(1_000)) == 300
