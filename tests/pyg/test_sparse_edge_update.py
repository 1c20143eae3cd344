import pytest
import torch

from relational_transformer.pyg import mean_of_reverse_edges


def test_reverse_edges_are_found_in_any_order():
    num_nodes = 7
    source, target = (torch.rand(num_nodes, num_nodes) < 0.5).nonzero(as_tuple=True)
    order = torch.randperm(len(source))
    edge_index, values = torch.stack([source[order], target[order]]), torch.randn(len(source), 3)
    by_pair = {(j, i): value for (j, i), value in zip(edge_index.T.tolist(), values, strict=True)}
    missing = torch.full((3,), 9.0)
    expected = torch.stack([by_pair.get((i, j), missing) for j, i in edge_index.T.tolist()])
    assert torch.equal(mean_of_reverse_edges(values, edge_index, num_nodes, missing), expected)


@pytest.mark.parametrize(("num_nodes", "num_edges"), [(1, 3), (2, 2), (4, 30), (30, 60), (3, 0)])
def test_edges_back_may_be_parallel_or_loops_or_missing(num_nodes: int, num_edges: int):
    edge_index, values = torch.randint(num_nodes, (2, num_edges)), torch.randn(num_edges, 3)
    missing, pairs = torch.full((3,), 9.0), edge_index.T.tolist()
    expected = torch.empty_like(values)
    for edge, (j, i) in enumerate(pairs):
        back = [value for value, pair in zip(values, pairs, strict=True) if pair == [i, j]]
        expected[edge] = torch.stack(back).mean(0) if back else missing
    torch.testing.assert_close(mean_of_reverse_edges(values, edge_index, num_nodes, missing), expected)


def test_gradients_reach_the_reverse_edges_and_what_stands_for_missing_ones():
    values, missing = torch.ones(3, 1, requires_grad=True), torch.ones(1, requires_grad=True)
    edge_index = torch.tensor([[0, 1, 1], [1, 0, 2]])  # 0 -> 1, 1 -> 0, and 1 -> 2 without a way back
    (mean_of_reverse_edges(values, edge_index, 3, missing) * torch.tensor([[2.0], [3.0], [5.0]])).sum().backward()
    assert values.grad is not None
    assert missing.grad is not None
    assert values.grad.flatten().tolist() == [3.0, 2.0, 0.0]
    assert missing.grad.tolist() == [5.0]
