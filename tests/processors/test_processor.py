"""What every processor must do, whatever it computes."""

import pytest
import torch
from torch import Tensor

from relational_transformer.processors import PROCESSORS, GraphState, Processor, Settings, build_processor

SIZE = 12


def make(name: str, **changes: object) -> Processor:
    torch.manual_seed(3)
    settings = Settings(processor=name, hidden_size=SIZE, num_heads=3, num_layers=2, node_hidden_size=8)
    return build_processor(Settings(**{**vars(settings), **changes})).double()


def random_step(processor: Processor, num_nodes: int, seed: int = 0) -> tuple[GraphState, GraphState, Tensor]:
    """Features, hidden state and a symmetric adjacency with self-loops, as the network would give them."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(2, *shape, SIZE, generator=generator, dtype=torch.float64)

    features = GraphState(draw(num_nodes), draw(num_nodes, num_nodes), draw())
    edges = draw(num_nodes, num_nodes) if processor.returns_edges else None
    hidden = GraphState(draw(num_nodes), edges, draw() if processor.returns_globals else None)
    drawn = torch.rand(2, num_nodes, num_nodes, generator=generator) < 0.3
    return features, hidden, drawn | drawn.transpose(1, 2) | torch.eye(num_nodes, dtype=torch.bool)


def reorder(state: GraphState, order: Tensor) -> GraphState:
    edges = None if state.edges is None else state.edges[:, order][:, :, order]
    return GraphState(state.nodes[:, order], edges, state.globals)


def assert_same(left: GraphState, right: GraphState) -> None:
    for ours, theirs in zip(left, right, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            torch.testing.assert_close(ours, theirs)


VARIANTS = [(name, {}) for name in PROCESSORS] + [
    ("rt", {"global_mode": "core"}),
    ("rt", {"global_mode": "att"}),
    ("rt", {"update_edges": False}),
]
every_processor = pytest.mark.parametrize(("name", "changes"), VARIANTS, ids=str)


@every_processor
def test_returns_what_it_says_in_the_size_it_was_given(name: str, changes: dict) -> None:
    processor = make(name, **changes)
    state = processor(*random_step(processor, 5))
    assert state.nodes.shape == (2, 5, SIZE)
    assert (state.edges is not None) == (processor.returns_edges or processor.returns_messages)
    assert (state.globals is not None) == processor.returns_globals
    if state.edges is not None:
        assert state.edges.shape == (2, 5, 5, SIZE)


@every_processor
def test_renaming_the_nodes_renames_the_result(name: str, changes: dict) -> None:
    processor = make(name, **changes)
    features, hidden, adjacency = random_step(processor, 6)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    expected = reorder(processor(features, hidden, adjacency), order)
    renamed = processor(reorder(features, order), reorder(hidden, order), adjacency[:, order][:, :, order])
    assert_same(renamed, expected)


@every_processor
def test_absent_nodes_reach_nobody(name: str, changes: dict) -> None:
    processor = make(name, **changes)
    features, hidden, adjacency = random_step(processor, 7)
    node_mask = torch.arange(7) < torch.tensor([[4], [7]])
    padded = processor(features, hidden, adjacency, node_mask)

    def first_four(state: GraphState) -> GraphState:
        edges = None if state.edges is None else state.edges[:1, :4, :4]
        return GraphState(state.nodes[:1, :4], edges, None if state.globals is None else state.globals[:1])

    alone = processor(first_four(features), first_four(hidden), adjacency[:1, :4, :4])
    assert_same(first_four(padded), alone)


@every_processor
def test_whatever_absent_nodes_hold_results_and_gradients_have_the_same_bits(name: str, changes: dict) -> None:
    processor = make(name, **changes)
    features, hidden, adjacency = random_step(processor, 7)
    node_mask = torch.arange(7) < torch.tensor([[4], [6]])
    pairs = node_mask.unsqueeze(-1) & node_mask.unsqueeze(-2)

    def fill(state: GraphState, padding: float) -> GraphState:
        edges = None if state.edges is None else state.edges.masked_fill(~pairs.unsqueeze(-1), padding)
        return GraphState(state.nodes.masked_fill(~node_mask.unsqueeze(-1), padding), edges, state.globals)

    def run(padding: float) -> list[Tensor]:
        state = processor(fill(features, padding), fill(hidden, padding), adjacency, node_mask)
        present = [state.nodes[node_mask]] + ([] if state.edges is None else [state.edges[pairs]])
        loss = torch.stack([part.square().sum() for part in present]).sum()
        return [*present, *torch.autograd.grad(loss, list(processor.parameters()), materialize_grads=True)]

    expected = run(0.0)
    assert all(tensor.isfinite().all() for tensor in expected)
    for padding in (1e100, torch.inf, torch.nan):
        for ours, theirs in zip(run(padding), expected, strict=True):
            assert torch.equal(ours, theirs)


@every_processor
def test_gradients_reach_every_parameter(name: str, changes: dict) -> None:
    processor = make(name, **changes)
    features, hidden, adjacency = random_step(processor, 5)
    state = processor(features, hidden, adjacency)
    loss = sum((part * torch.randn_like(part)).sum() for part in state if part is not None)
    assert isinstance(loss, Tensor)
    loss.backward()
    without = [key for key, parameter in processor.named_parameters() if parameter.grad is None]
    assert not without


def test_an_unknown_processor_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"there is no processor 'mpn'; the processors are rt, transformer, .*mpnn"):
        build_processor(Settings(processor="mpn"))


@pytest.mark.parametrize("name", ["rt", "transformer", "gat", "gatv2"])
def test_heads_must_divide_the_size(name: str) -> None:
    with pytest.raises(ValueError, match="num_heads must divide hidden_size=12, got num_heads=5"):
        make(name, num_heads=5)
