"""Graph attention, both versions: what a full one is, and who is attended to."""

import pytest
import torch

from relational_transformer.processors import GraphState, find_processor

SIZE, NODES = 6, 5


def random_step() -> tuple[GraphState, GraphState]:
    torch.manual_seed(0)
    nodes, edges = torch.randn(2, NODES, SIZE).double(), torch.randn(2, NODES, NODES, SIZE).double()
    return GraphState(nodes, edges, torch.randn(2, SIZE).double()), GraphState(torch.randn(2, NODES, SIZE).double())


@pytest.mark.parametrize("name", ["gat", "gatv2"])
def test_full_variant_takes_all_pairs_as_adjacent(name: str) -> None:
    torch.manual_seed(1)
    sparse = find_processor(name)(SIZE, 2, 3).double()
    full = find_processor(f"{name}_full")(SIZE, 2, 3).double()
    full.load_state_dict(sparse.state_dict())
    features, hidden = random_step()
    everyone = torch.ones(2, NODES, NODES, dtype=torch.bool)
    torch.testing.assert_close(full(features, hidden, None).nodes, sparse(features, hidden, everyone).nodes)


@pytest.mark.parametrize("name", ["gat", "gatv2"])
def test_nothing_is_heard_from_a_node_that_is_not_adjacent(name: str) -> None:
    torch.manual_seed(1)
    processor = find_processor(name)(SIZE, 1, 3).double()
    features, hidden = random_step()
    adjacency = torch.ones(2, NODES, NODES, dtype=torch.bool)
    adjacency[:, 0, 3] = adjacency[:, 3, 0] = False
    before = processor(features, hidden, adjacency).nodes
    changed = features.nodes.clone()
    changed[:, 3] += 1.0
    after = processor(features._replace(nodes=changed), hidden, adjacency).nodes
    torch.testing.assert_close(after[:, 0], before[:, 0])
    assert (after[:, 1] - before[:, 1]).abs().max() > 1e-3
