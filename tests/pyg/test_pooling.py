import pytest
import torch

from relational_transformer.pyg.pooling import pool


@pytest.mark.parametrize("pooling", ["mean", "sum", "max"])
def test_only_the_nodes_that_are_there_count(pooling: str):
    nodes, node_mask = torch.randn(3, 4, 2), torch.tensor([[1, 1, 1, 1], [0, 1, 0, 1], [1, 0, 0, 0]]).bool()
    pooled = pool(nodes.masked_fill(~node_mask.unsqueeze(-1), torch.nan), node_mask, pooling)
    for graph in range(3):
        own = nodes[graph, node_mask[graph]]
        torch.testing.assert_close(pooled[graph], own.amax(0) if pooling == "max" else getattr(own, pooling)(0))


@pytest.mark.parametrize("pooling", ["mean", "sum", "max"])
@pytest.mark.parametrize("num_nodes", [0, 2])
def test_a_graph_without_nodes_gives_zeros(pooling: str, num_nodes: int):
    pooled = pool(torch.ones(1, num_nodes, 3), torch.zeros(1, num_nodes, dtype=torch.bool), pooling)
    assert pooled.tolist() == [[0.0] * 3]
