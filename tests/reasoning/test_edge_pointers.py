"""Pointers that are bound to their edges: the encoder and the scores of their definition, in loops."""

import torch
from torch import Tensor

from relational_transformer.reasoning.edge_pointers import BoundPointers, bound_scores
from relational_transformer.reasoning.encoders import one_hot

BATCH, NODES, SIZE = 2, 4, 3


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def oracle_of_encoder(bound: BoundPointers, nodes: Tensor, edges: Tensor, pointers: Tensor) -> Tensor:
    count = pointers.shape[-1]
    from_nodes = bound.from_nodes.weight.split(SIZE)
    from_edges = bound.from_edges.weight.split(SIZE)
    told = edges.clone()
    for example in range(BATCH):
        for i in range(NODES):
            for j in range(NODES):
                for k in range(NODES):
                    for f in range(count):
                        target = from_nodes[f] @ nodes[example, k]
                        target = target + from_edges[2 * f] @ edges[example, i, k]
                        target = target + from_edges[2 * f + 1] @ edges[example, k, j]
                        told[example, i, j] = told[example, i, j] + pointers[example, i, j, k, f] * target
    return told


def test_the_encoder_tells_every_edge_what_its_targets_are():
    torch.manual_seed(0)
    bound = BoundPointers(2, SIZE).double()
    nodes, edges = randn(BATCH, NODES, SIZE), randn(BATCH, NODES, NODES, SIZE)
    pointers = randn(BATCH, NODES, NODES, NODES, 2).softmax(-2)
    told, expected = bound(nodes, edges, pointers), oracle_of_encoder(bound, nodes, edges, pointers)
    torch.testing.assert_close(told, expected)
    seen, learnt = torch.randn_like(told), [nodes, edges, pointers, *bound.parameters()]
    gradients = [torch.autograd.grad(of, learnt, seen, retain_graph=True) for of in (told, expected)]
    torch.testing.assert_close(*gradients)


def test_pointers_as_indices_are_as_probabilities_of_one_node():
    torch.manual_seed(0)
    bound = BoundPointers(2, SIZE).double()
    nodes, edges = randn(BATCH, NODES, SIZE), randn(BATCH, NODES, NODES, SIZE)
    index = torch.randint(NODES, (BATCH, NODES, NODES, 2))
    assert torch.equal(bound(nodes, edges, index), bound(nodes, edges, one_hot(index, NODES).double()))


def test_scores_are_products_of_an_edge_and_each_node_beside_it():
    torch.manual_seed(0)
    count, size = 2, 5
    query, nodes = randn(BATCH, NODES, NODES, count, size), randn(BATCH, NODES, count, size)
    to_target, from_target = randn(BATCH, NODES, NODES, count, size), randn(BATCH, NODES, NODES, count, size)
    scores = bound_scores(query, nodes, to_target, from_target)
    expected = torch.zeros(BATCH, NODES, NODES, NODES, count, dtype=torch.float64)
    for i in range(NODES):
        for j in range(NODES):
            for k in range(NODES):
                target = nodes[:, k] + to_target[:, i, k] + from_target[:, k, j]
                expected[:, i, j, k] = (query[:, i, j] * target).sum(-1) / size**0.5
    torch.testing.assert_close(scores, expected)
    seen, given = torch.randn_like(scores), [query, nodes, to_target, from_target]
    gradients = [torch.autograd.grad(of, given, seen, retain_graph=True) for of in (scores, expected)]
    torch.testing.assert_close(*gradients)
