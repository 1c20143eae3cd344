"""Triplet-GMPNN by its formulas; numbers of the published implementation are in `tests/parity`."""

import pytest
import torch

from relational_transformer.processors import MODERN, GraphState, build_processor
from relational_transformer.processors.triplet_gmpnn import GMPNN, Gate, TripletGMPNN, TripletMessages, TripletMPNN


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def test_a_message_to_an_edge_is_the_maximum_over_the_triangles_on_it() -> None:
    torch.manual_seed(0)
    messages = TripletMessages(node_size=6, size=4, triplet_size=2).double()
    for parameter in messages.parameters():
        torch.nn.init.normal_(parameter)
    nodes, edges, globals = draw(3, 6), draw(3, 3, 4), draw(4)
    of_nodes, of_edges = messages.from_nodes(nodes), messages.from_edges(edges)
    of_globals = messages.from_globals(globals)
    made = messages(nodes, edges, globals)
    for j in range(3):
        for k in range(3):
            triplets = [
                of_nodes[i, 0:2] + of_nodes[j, 2:4] + of_nodes[k, 4:6]
                + of_edges[i, j, 0:2] + of_edges[i, k, 2:4] + of_edges[j, k, 4:6] + of_globals
                for i in range(3)
            ]  # fmt: skip
            expected = messages.output(torch.stack(triplets).amax(0)).relu()
            torch.testing.assert_close(made[j, k], expected)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_compiled_the_messages_have_the_same_gradients(dtype: torch.dtype) -> None:
    """A compiler computes the triplets again in the backward pass, and rounds them otherwise."""
    torch.manual_seed(0)
    messages = TripletMessages(node_size=16, size=8, triplet_size=8)
    given = torch.randn(2, 6, 16), torch.randn(2, 6, 6, 8), torch.randn(2, 8)

    def loss() -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            return messages(*given).float().square().mean()

    losses = torch.compile(loss, fullgraph=True, dynamic=False)(), loss()
    gradients = [torch.autograd.grad(made, list(messages.parameters())) for made in losses]
    bound = 1e-5 if dtype == torch.float32 else 0.05
    for ours, theirs in zip(*gradients, strict=True):
        assert (ours - theirs).norm() <= bound * theirs.norm()


def test_a_gate_starts_nearly_closed_and_mixes_what_it_is_given() -> None:
    torch.manual_seed(0)
    gate = Gate(node_size=32, size=16).double()
    nodes, messages, hidden = draw(5, 32), draw(5, 16), draw(5, 16)
    openness = gate(nodes, messages, torch.ones(5, 16).double(), torch.zeros(5, 16).double())
    assert 0.02 < openness.mean() < 0.15  # sigmoid(-3) = 0.047
    assert ((openness > 0) & (openness < 1)).all()
    torch.testing.assert_close(gate(nodes, messages, 2 * hidden, hidden), hidden * (1 + openness))


def test_it_is_made_of_the_published_parts() -> None:
    processors = {name: build_processor(settings) for name, settings in MODERN.items()}
    kinds = {"triplet_gmpnn": TripletGMPNN, "triplet_mpnn": TripletMPNN, "gmpnn": GMPNN}
    for name, processor in processors.items():
        assert type(processor) is kinds[name]
        assert processor.returns_messages == ("triplet" in name)
        assert (processor.gates is not None) == ("gmpnn" in name)
    triplets = processors["triplet_gmpnn"].triplets
    assert isinstance(triplets, TripletMessages)
    assert (triplets.output.in_features, triplets.output.out_features) == (8, 128)


def test_a_step_remembers_nodes_alone() -> None:
    processor = TripletGMPNN(hidden_size=8)
    assert not processor.returns_edges
    features = GraphState(torch.randn(2, 4, 8), torch.randn(2, 4, 4, 8), torch.randn(2, 8))
    state = processor(features, GraphState(torch.zeros(2, 4, 8)), None)
    assert state.edges is not None
    assert state.edges.shape == (2, 4, 4, 8)
    again = processor(features, GraphState(state.nodes), None)
    assert not torch.equal(again.nodes, state.nodes)
