"""Whatever padding holds, results and gradients have the same bits."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from relational_transformer import LayerOptions, RelationalAttention, causal_mask, relational_attention
from relational_transformer.nn import EdgeUpdate, edge_update
from relational_transformer.nn.kernels import use_kernels
from tests.nn.graphs import make_graph, make_layer, make_stack, randomise

PADDINGS = [0.0, 1e30, -torch.inf, torch.inf, torch.nan]
SEEDS = range(4)
VARIANT = LayerOptions(pre_norm=True, norm="rms", activation="swiglu", log_scaling_size=3)


def some_nodes(*batch: int, num_nodes: int = 5) -> Tensor:
    """Some nodes are there, one at least and not all."""
    mask = torch.rand(*batch, num_nodes) < 0.6
    mask[..., 0], mask[..., -1] = True, False
    return mask


def fill_nodes(nodes: Tensor, node_mask: Tensor, padding: float) -> Tensor:
    return nodes.masked_fill(~node_mask.unsqueeze(-1), padding)


def fill_edges(edges: Tensor, pairs: Tensor, padding: float) -> Tensor:
    return edges.masked_fill(~pairs.unsqueeze(-1), padding)


def pairs_of(node_mask: Tensor) -> Tensor:
    return node_mask.unsqueeze(-1) & node_mask.unsqueeze(-2)


def results(
    run: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor], present: Sequence[Tensor], module: nn.Module | None
) -> list[Tensor]:
    """What is present of the outputs, and the gradients of all inputs and parameters through it."""
    inputs = [tensor.clone().requires_grad_() for tensor in inputs]
    wanted = [output[mask] for output, mask in zip(run(*inputs), present, strict=True)]
    loss = sum((output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum() for output in wanted)
    assert isinstance(loss, Tensor)
    parameters = [] if module is None else list(module.parameters())
    gradients = torch.autograd.grad(loss, [*inputs, *parameters], allow_unused=True)
    return [*wanted, *(gradient for gradient in gradients if gradient is not None)]


def assert_padding_does_not_matter(
    run: Callable[..., Sequence[Tensor]],
    fill: Callable[[float], Sequence[Tensor]],
    present: Sequence[Tensor],
    module: nn.Module | None = None,
) -> None:
    expected = results(run, fill(0.0), present, module)
    assert all(tensor.isfinite().all() for tensor in expected)
    assert any(tensor.abs().sum() > 0 for tensor in expected)
    for padding in PADDINGS[1:]:
        for ours, theirs in zip(results(run, fill(padding), present, module), expected, strict=True):
            assert torch.equal(ours, theirs), f"padding of {padding} matters"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["function", "kernels"])
def test_attention_along_a_mask(kind: str, seed: int):
    """An edge along which nobody attends, a query that attends to nothing, a key that nothing attends to."""
    if kind == "kernels":
        pytest.importorskip("triton")
    torch.manual_seed(seed)
    query, key, value = torch.randn(3, 2, 5, 6).unbind()
    edges, weight = torch.randn(2, 5, 5, 4), torch.randn(18, 4)
    mask = torch.rand(2, 5, 5) < 0.5
    mask[:, 3], mask[:, :, 4] = False, False
    mask[:, 0, 0] = True
    attends, is_attended = mask.any(-1), mask.any(-2)

    def fill(padding: float) -> list[Tensor]:
        keys = [fill_nodes(tensor, is_attended, padding) for tensor in (key, value)]
        return [fill_nodes(query, attends, padding), *keys, fill_edges(edges, mask, padding), weight]

    def run(*inputs: Tensor) -> list[Tensor]:
        with use_kernels(kind == "kernels"):
            return [relational_attention(*inputs, num_heads=2, attention_mask=mask).messages]

    assert_padding_does_not_matter(run, fill, [torch.ones(2, 5, dtype=torch.bool)])


def test_weights_of_attention_along_a_mask():
    nodes, edges, mask = torch.randn(4, 6), torch.randn(4, 4, 3), causal_mask(4)
    weight = torch.randn(18, 3)
    one, other = (
        relational_attention(
            nodes, nodes, nodes, fill_edges(edges, mask, padding), weight, num_heads=2, attention_mask=mask,
            need_weights=True,
        ).weights
        for padding in (0.0, torch.nan)
    )  # fmt: skip
    assert one is not None
    assert other is not None
    assert torch.equal(one, other)


@pytest.mark.parametrize("seed", SEEDS)
def test_attention_of_some_nodes(seed: int):
    torch.manual_seed(seed)
    attention = RelationalAttention(node_size=6, edge_size=5, num_heads=2, head_size=3)
    randomise(attention)
    (nodes, edges), present = make_graph(2, num_nodes=5), some_nodes(2)
    chosen = torch.rand(2, 5, 5) < 0.6
    for mask in (None, chosen):
        pairs = pairs_of(present) if mask is None else pairs_of(present) & mask
        assert_padding_does_not_matter(
            lambda *graph, mask=mask: [attention(*graph, node_mask=present, attention_mask=mask).messages],
            lambda padding, pairs=pairs: [fill_nodes(nodes, present, padding), fill_edges(edges, pairs, padding)],
            [present],
            attention,
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_attention_to_some_nodes_of_a_context(seed: int):
    torch.manual_seed(seed)
    attention = RelationalAttention(node_size=6, edge_size=5, num_heads=2, head_size=3)
    randomise(attention)
    nodes, context, edges, present = torch.randn(3, 6), torch.randn(5, 6), torch.randn(3, 5, 5), some_nodes()
    assert_padding_does_not_matter(
        lambda nodes, edges, context: [attention(nodes, edges, context=context, node_mask=present).messages],
        lambda padding: [
            nodes,
            fill_edges(edges, present.expand(3, 5), padding),
            fill_nodes(context, present, padding),
        ],
        [torch.ones(3, dtype=torch.bool)],
        attention,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_edge_update_of_some_nodes(seed: int):
    torch.manual_seed(seed)
    update = EdgeUpdate(node_size=6, edge_size=5, hidden_sizes=(4, 3))
    randomise(update)
    (nodes, edges), present = make_graph(2, num_nodes=5), some_nodes(2)
    pairs = pairs_of(present)
    assert_padding_does_not_matter(
        lambda nodes, edges: [update(edges, nodes, node_mask=present)],
        lambda padding: [fill_nodes(nodes, present, padding), fill_edges(edges, pairs, padding)],
        [pairs],
        update,
    )


def test_edge_update_as_a_function():
    shapes = [(4, 5), (4, 5), (5, 4), (5,), (5,), (5,), (3, 5), (3,), (5, 3), (5,), (5,), (5,)]
    parameters = [torch.randn(shape) for shape in shapes]
    edges, ends, present = torch.randn(6, 6, 5), torch.randn(2, 6, 4), some_nodes(num_nodes=6)
    pairs = pairs_of(present)
    assert_padding_does_not_matter(
        lambda *inputs: [edge_update(*inputs, node_mask=present)],
        lambda padding: [
            fill_edges(edges, pairs, padding), *fill_nodes(ends, present, padding).unbind(), *parameters
        ],
        [pairs],
    )  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("update_edges", [True, False])
@pytest.mark.parametrize("options", [LayerOptions(), VARIANT], ids=["published", "variant"])
def test_a_layer(update_edges: bool, options: LayerOptions, seed: int):
    torch.manual_seed(seed)
    layer = make_layer(update_edges=update_edges, options=options)
    (nodes, edges), present = make_graph(2, num_nodes=5), some_nodes(2)
    pairs = pairs_of(present)
    for mask in (None, causal_mask(5)):
        assert_padding_does_not_matter(
            lambda *graph, mask=mask: layer(*graph, node_mask=present, attention_mask=mask),
            lambda padding: [fill_nodes(nodes, present, padding), fill_edges(edges, pairs, padding)],
            [present, pairs],
            layer,
        )


@pytest.mark.parametrize("options", [LayerOptions(), VARIANT], ids=["published", "variant"])
def test_a_layer_whose_nodes_do_not_hear_along_some_edges(options: LayerOptions):
    layer, (nodes, edges) = make_layer(options=options), make_graph(num_nodes=5)
    mask = causal_mask(5)
    assert_padding_does_not_matter(
        lambda *graph: [layer(*graph, attention_mask=mask).nodes],
        lambda padding: [nodes, fill_edges(edges, mask, padding)],
        [torch.ones(5, dtype=torch.bool)],
        layer,
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", ["cat", "core", "att"])
@pytest.mark.parametrize("options", [LayerOptions(), VARIANT], ids=["published", "variant"])
def test_a_model(mode: str, options: LayerOptions, seed: int):
    torch.manual_seed(seed)
    model = make_stack(global_input_size=2, global_mode=mode, options=options)
    nodes, edges, globals, present = torch.randn(2, 5, 4), torch.randn(2, 5, 5, 3), torch.randn(2, 2), some_nodes(2)
    pairs = pairs_of(present)

    def fill(padding: float) -> list[Tensor]:
        return [fill_nodes(nodes, present, padding), fill_edges(edges, pairs, padding), globals]

    def in_parts(nodes: Tensor, edges: Tensor, globals: Tensor) -> Sequence[Tensor]:
        return model(nodes.split([1, 3], -1), edges.split([2, 1], -1), globals, node_mask=present)[:2]

    def whole(*graph: Tensor) -> Sequence[Tensor]:
        return model(*graph, node_mask=present, attention_mask=causal_mask(5))[:2]

    for run in (in_parts, whole):
        assert_padding_does_not_matter(run, fill, [present, pairs], model)


@pytest.mark.parametrize("options", [LayerOptions(), VARIANT], ids=["published", "variant"])
def test_a_graph_without_any_node(options: LayerOptions):
    model = make_stack(options=options)
    nodes, edges = torch.full((2, 3, 4), torch.nan), torch.full((2, 3, 3, 3), torch.inf)
    nodes[0], edges[0] = 1.0, 1.0
    present = torch.tensor([[True], [False]])
    output = model(nodes, edges, node_mask=present)
    assert output.nodes.isfinite().all()
    output.nodes[0].sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


def test_a_mask_of_all_changes_no_bit():
    model, everything = make_stack(), torch.ones(5, dtype=torch.bool)
    nodes, edges = torch.randn(2, 5, 4), torch.randn(2, 5, 5, 3)
    for ours, plain in zip(model(nodes, edges, node_mask=everything)[:2], model(nodes, edges)[:2], strict=True):
        assert torch.equal(ours, plain)
