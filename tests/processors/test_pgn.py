"""Message passing against a plain loop, and the members of its family against each other."""

import pytest
import torch
from torch.nn import functional as F

from relational_transformer.processors import GraphState
from relational_transformer.processors.deep_sets import DeepSets
from relational_transformer.processors.mpnn import MPNN
from relational_transformer.processors.pgn import PGN, MaskedPGN, MessagePassingLayer

SIZE, NODES = 6, 5


@pytest.fixture
def step() -> tuple[GraphState, GraphState, torch.Tensor]:
    torch.manual_seed(0)
    features = GraphState(
        torch.randn(2, NODES, SIZE).double(), torch.randn(2, NODES, NODES, SIZE).double(), torch.randn(2, SIZE).double()
    )
    drawn = torch.rand(2, NODES, NODES) < 0.3
    adjacency = drawn | drawn.transpose(1, 2) | torch.eye(NODES, dtype=torch.bool)
    return features, GraphState(torch.randn(2, NODES, SIZE).double()), adjacency


def test_layer_takes_the_largest_message_of_each_adjacent_sender(step: tuple) -> None:
    features, hidden, adjacency = step
    layer = MessagePassingLayer(2 * SIZE, SIZE).double()
    torch.nn.init.normal_(layer.norm.bias)
    nodes = torch.cat([features.nodes, hidden.nodes], dim=-1)
    result = layer(nodes, features.edges, features.globals, adjacency)
    receiver, sender, skip = layer.from_nodes(nodes).chunk(3, dim=-1)
    for example in range(2):
        for c in range(NODES):
            messages = []
            for a in range(NODES):
                if adjacency[example, a, c]:
                    summed = receiver[example, c] + sender[example, a]
                    summed = summed + layer.from_edges(features.edges[example, a, c])
                    summed = summed + layer.from_globals(features.globals[example])
                    messages.append(layer.message_out(F.relu(layer.message_hidden(F.relu(summed)))))
            largest = torch.stack(messages).max(0).values
            expected = layer.norm(F.relu(skip[example, c] + layer.from_messages(largest)))
            torch.testing.assert_close(result[example, c], expected)


def _with_weights_of(other: PGN, kind: type[PGN]) -> PGN:
    processor = kind(SIZE, 2).double()
    processor.load_state_dict(other.state_dict())
    return processor


def test_mpnn_is_a_pgn_with_all_pairs_adjacent(step: tuple) -> None:
    features, hidden, adjacency = step
    pgn = PGN(SIZE, 2).double()
    everyone = torch.ones_like(adjacency)
    mpnn = _with_weights_of(pgn, MPNN)
    torch.testing.assert_close(mpnn(features, hidden, None).nodes, pgn(features, hidden, everyone).nodes)


def test_deep_sets_is_a_pgn_with_each_node_adjacent_to_itself_alone(step: tuple) -> None:
    features, hidden, adjacency = step
    pgn = PGN(SIZE, 2).double()
    itself = torch.eye(NODES, dtype=torch.bool).expand_as(adjacency)
    deep_sets = _with_weights_of(pgn, DeepSets)
    torch.testing.assert_close(deep_sets(features, hidden, None).nodes, pgn(features, hidden, itself).nodes)


def test_masked_pgn_computes_the_same_and_masks_decoders(step: tuple) -> None:
    pgn = PGN(SIZE, 2).double()
    masked = _with_weights_of(pgn, MaskedPGN)
    torch.testing.assert_close(masked(*step).nodes, pgn(*step).nodes)
    assert masked.masks_decoders
    assert not pgn.masks_decoders


@pytest.mark.parametrize("kind", [PGN, MPNN, DeepSets])
def test_compiled_with_aligned_channels_it_is_the_same_with_the_same_gradients(step: tuple, kind: type[PGN]) -> None:
    torch.manual_seed(1)
    processor = kind(SIZE, 2).double()
    for parameter in processor.parameters():
        torch.nn.init.normal_(parameter)
    compiled = torch.compile(processor, backend="eager", fullgraph=True)
    node_mask = torch.tensor([[True] * NODES, [True] * (NODES - 1) + [False]])
    results = [model(*step, node_mask).nodes[node_mask] for model in (processor, compiled)]
    torch.testing.assert_close(results[1], results[0])
    seen = torch.randn_like(results[0])
    gradients = [torch.autograd.grad(result, list(processor.parameters()), seen) for result in results]
    torch.testing.assert_close(gradients[1], gradients[0])
