"""Decoders: masking along the adjacency, absent nodes, and the large scores made row by row."""

import pytest
import torch

from relational_transformer.clrs.spec import SPECS, Stage
from relational_transformer.reasoning import group_features
from relational_transformer.reasoning.decoders import ABSENT, Decoders, bound_scores, mask_outside, read_out

SIZE, NODES, BATCH = 6, 4, 2


def make(algorithm: str, *, pointers_from_edges: bool = False) -> Decoders:
    torch.manual_seed(0)
    spec = SPECS[algorithm]
    hints, outputs = group_features(spec, Stage.HINT), group_features(spec, Stage.OUTPUT)
    return Decoders(hints, outputs, SIZE, edge_parts=3, global_parts=1, pointers_from_edges=pointers_from_edges)


def vectors() -> tuple:
    generator = torch.Generator().manual_seed(1)
    nodes = tuple(torch.randn(BATCH, NODES, SIZE, generator=generator) for _ in range(3))
    edges = tuple(torch.randn(BATCH, NODES, NODES, SIZE, generator=generator) for _ in range(3))
    return nodes, edges, (torch.randn(BATCH, SIZE, generator=generator),)


def test_outside_the_adjacency_logits_lie_below_the_examples_smallest() -> None:
    logits = torch.tensor([[[0.5, -3.0], [2.0, 1.0]], [[4.0, 5.0], [6.0, 7.0]]]).unsqueeze(-1)
    adjacency = torch.tensor([[[True, False], [False, True]]]).expand(2, -1, -1)
    masked = mask_outside(logits, adjacency, None).squeeze(-1)
    # The first example's smallest logit, -3, is outside itself; the second's, 4, is above 0, so -1 it is.
    assert masked.tolist() == [[[0.5, -4.0], [-4.0, 1.0]], [[4.0, -1.0], [-1.0, 7.0]]]


def test_absent_nodes_do_not_count_as_the_smallest() -> None:
    logits = torch.tensor([[[0.5, -3.0], [2.0, -9.0]]]).unsqueeze(-1)
    adjacency = torch.zeros(1, 2, 2, dtype=torch.bool)
    masked = mask_outside(logits, adjacency, torch.tensor([[True, False]]))
    assert masked[0, 0, 0, 0].item() == -1.0


@pytest.mark.parametrize(("algorithm", "key"), [("floyd_warshall", "edge_pointer"), ("bfs", "node_pointer")])
def test_pointers_are_the_same_row_by_row(algorithm: str, key: str, monkeypatch) -> None:
    decoders = make(algorithm)
    at_once = decoders(*vectors(), None)[1][key]
    monkeypatch.setattr("relational_transformer.reasoning.decoders.LARGE", 0)
    with torch.no_grad():
        row_by_row = decoders(*vectors(), None)[1][key]
    assert row_by_row.shape == (BATCH, *(NODES,) * (3 if key == "edge_pointer" else 2), 1)
    torch.testing.assert_close(row_by_row, at_once)


def test_pointers_from_edges_read_edges_alone() -> None:
    decoders = make("bfs", pointers_from_edges=True)
    nodes, edges, globals = vectors()
    before = decoders(nodes, edges, globals, None)[1]["node_pointer"]
    after = decoders(tuple(part + 1 for part in nodes), edges, globals, None)[1]["node_pointer"]
    assert torch.equal(after, before)


@pytest.mark.parametrize("algorithm", ["bfs", "binary_search", "floyd_warshall"])
def test_absent_nodes_are_never_chosen(algorithm: str) -> None:
    node_mask = torch.tensor([[True, True, False, False], [True, True, True, True]])
    hints, outputs = make(algorithm)(*vectors(), None, node_mask)
    for group, logits in {**hints, **outputs}.items():
        if "pointer" in group or "mask_one" in group:
            assert (logits[0].movedim(-2, 0)[2:] == ABSENT).all()
            assert (logits[1] > ABSENT / 2).all()


@pytest.mark.parametrize("algorithm", ["bfs", "mst_kruskal", "floyd_warshall"])
def test_logits_are_in_single_precision_at_least(algorithm: str) -> None:
    decoders = make(algorithm).bfloat16()
    halves = [tuple(part.bfloat16() for part in parts) for parts in vectors()]
    hints, outputs = decoders(*halves, None)
    assert {logits.dtype for logits in (*hints.values(), *outputs.values())} == {torch.float32}


@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 5), (2,)])
@pytest.mark.parametrize("channels", [3, 18, 64, 67])
def test_a_compiled_readout_is_the_same_linear_with_the_same_gradients(shape: tuple[int, ...], channels: int) -> None:
    torch.manual_seed(0)
    parts = tuple(torch.randn(*shape, 6, dtype=torch.float64, requires_grad=True) for _ in range(3))
    weight = torch.randn(channels, 18, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(channels, dtype=torch.float64, requires_grad=True)
    torch.compiler.reset()
    compiled = torch.compile(read_out, backend="eager", fullgraph=True)
    results = [function(parts, weight, bias) for function in (read_out, compiled)]
    torch.testing.assert_close(results[1], results[0])
    seen, learnt = torch.randn_like(results[0]), [*parts, weight, bias]
    gradients = [torch.autograd.grad(result, learnt, seen) for result in results]
    torch.testing.assert_close(gradients[1], gradients[0])


def test_scores_are_products_of_an_edge_and_each_node_beside_it():
    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

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
