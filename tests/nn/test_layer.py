import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relational_transformer import RelationalTransformerLayer
from tests.nn import oracle
from tests.nn.graphs import SIZES, make_graph, make_layer


@pytest.mark.usefixtures("double")
class TestAgainstTheEquations:
    @pytest.mark.parametrize("update_edges", [True, False])
    def test_values(self, update_edges: bool):
        layer, (nodes, edges) = make_layer(update_edges=update_edges), make_graph()
        for got, expected in zip(layer(nodes, edges), oracle.run_layer(layer, nodes, edges), strict=True):
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)

    def test_masked_values(self):
        layer, (nodes, edges) = make_layer(), make_graph()
        mask = torch.rand(4, 4) < 0.5
        got = layer(nodes, edges, attention_mask=mask)
        for ours, expected in zip(got, oracle.run_layer(layer, nodes, edges, mask), strict=True):
            torch.testing.assert_close(ours, expected, rtol=0, atol=1e-10)

    def test_gradients_of_every_parameter(self):
        layer, (nodes, edges) = make_layer(), make_graph(num_nodes=3)
        names, parameters = zip(*layer.named_parameters(), strict=True)
        wanted = torch.randn(3, 6), torch.randn(3, 3, 5)

        def loss(output):
            return (output[0] * wanted[0]).sum() + (output[1] * wanted[1]).sum()

        ours = torch.autograd.grad(loss(layer(nodes, edges)), parameters)
        expected = torch.autograd.grad(loss(oracle.run_layer(layer, nodes, edges)), parameters)
        for name, got, want in zip(names, ours, expected, strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")

    def test_gradcheck(self):
        layer, (nodes, edges) = make_layer(), make_graph(num_nodes=3)
        mask = torch.tensor([True, True, False])
        inputs = nodes.requires_grad_(), edges.requires_grad_()
        assert torch.autograd.gradcheck(lambda *graph: layer(*graph, node_mask=mask), inputs)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_any_batch_axes(batch: tuple[int, ...]):
    layer, (nodes, edges) = make_layer(), make_graph(*batch)
    out = layer(nodes, edges)
    flat = layer(nodes.reshape(-1, 4, 6), edges.reshape(-1, 4, 4, 5))
    torch.testing.assert_close(out.nodes, flat.nodes.reshape(nodes.shape))
    torch.testing.assert_close(out.edges, flat.edges.reshape(edges.shape))


@settings(deadline=None, derandomize=True, max_examples=25)
@given(num_nodes=st.integers(1, 7), seed=st.integers(0, 2**32 - 1))
def test_permuting_the_nodes_permutes_the_output(num_nodes: int, seed: int):
    torch.manual_seed(seed)
    layer, (nodes, edges) = make_layer(), make_graph(num_nodes=num_nodes)
    mask, order = torch.rand(num_nodes, num_nodes) < 0.7, torch.randperm(num_nodes)
    out = layer(nodes, edges, attention_mask=mask)
    permuted = layer(nodes[order], edges[order][:, order], attention_mask=mask[order][:, order])
    torch.testing.assert_close(permuted.nodes, out.nodes[order], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(permuted.edges, out.edges[order][:, order], rtol=1e-4, atol=1e-5)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(num_nodes=st.integers(1, 5), padding=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_padding_changes_nothing(num_nodes: int, padding: int, seed: int):
    torch.manual_seed(seed)
    layer, (nodes, edges) = make_layer(), make_graph(num_nodes=num_nodes)
    total = num_nodes + padding
    padded_nodes, padded_edges = torch.randn(total, 6) * 10, torch.randn(total, total, 5) * 10
    padded_nodes[:num_nodes], padded_edges[:num_nodes, :num_nodes] = nodes, edges
    present = torch.arange(total) < num_nodes
    out, padded = layer(nodes, edges), layer(padded_nodes, padded_edges, node_mask=present)
    torch.testing.assert_close(padded.nodes[:num_nodes], out.nodes, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(padded.edges[:num_nodes, :num_nodes], out.edges, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("double")
def test_without_edge_weights_it_is_torchs_transformer_layer():
    layer = make_layer(num_heads=2, head_size=3)
    with torch.no_grad():
        layer.attention.edge_qkv.weight.zero_()
        layer.attention.edge_qkv.bias.zero_()
    reference = torch.nn.TransformerEncoderLayer(6, 2, dim_feedforward=7, dropout=0.0, batch_first=True)
    pairs = {
        "self_attn.in_proj_weight": layer.attention.node_qkv.weight,
        "self_attn.in_proj_bias": layer.attention.node_qkv.bias,
        "self_attn.out_proj.weight": layer.node_output.weight,
        "self_attn.out_proj.bias": layer.node_output.bias,
        "linear1.weight": layer.node_feed_forward_in.weight,
        "linear1.bias": layer.node_feed_forward_in.bias,
        "linear2.weight": layer.node_feed_forward_out.weight,
        "linear2.bias": layer.node_feed_forward_out.bias,
        "norm1.weight": layer.node_norm.weight,
        "norm1.bias": layer.node_norm.bias,
        "norm2.weight": layer.node_feed_forward_norm.weight,
        "norm2.bias": layer.node_feed_forward_norm.bias,
    }
    reference.load_state_dict(pairs)
    nodes, edges = make_graph(2)
    torch.testing.assert_close(layer(nodes, edges).nodes, reference(nodes), rtol=0, atol=1e-12)


def test_edges_hear_from_the_updated_nodes():
    layer, (nodes, edges) = make_layer(), make_graph()
    out = layer(nodes, edges)
    torch.testing.assert_close(out.edges, layer.edge_update(edges, out.nodes))
    assert not torch.allclose(out.edges, layer.edge_update(edges, nodes))


def test_direction_of_an_edge_matters():
    layer, (nodes, edges) = make_layer(), make_graph()
    assert not torch.allclose(layer(nodes, edges).nodes, layer(nodes, edges.transpose(0, 1)).nodes)


def test_without_edge_updates_edges_pass_through():
    layer, (nodes, edges) = make_layer(update_edges=False), make_graph()
    assert layer(nodes, edges).edges is edges
    assert not any("edge_update" in name for name, _ in layer.named_parameters())


def test_dropout_acts_in_training_alone():
    layer, (nodes, edges) = make_layer(dropout=0.5), make_graph()
    first, second = layer(nodes, edges), layer(nodes, edges)
    assert not torch.equal(first.nodes, second.nodes)
    assert not torch.equal(first.edges, second.edges)
    layer.eval()
    for ours, plain in zip(layer(nodes, edges), oracle.run_layer(layer, nodes, edges), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-5)


def test_reset_parameters_draws_the_published_initialisation():
    layer = make_layer(node_size=64, edge_size=48)
    layer.reset_parameters()
    for name, parameter in layer.named_parameters():
        if "norm" in name:
            assert torch.equal(parameter, torch.full_like(parameter, float("weight" in name))), name
        elif name.endswith("bias"):
            assert not parameter.any(), name
        else:
            sigma = parameter.shape[1] ** -0.5
            assert parameter.abs().max() <= 2 * sigma, name
            assert 0.7 * sigma < parameter.std() < 1.05 * sigma, name


def test_parameter_count_of_the_paper():
    layer = RelationalTransformerLayer(
        node_size=224, edge_size=128, num_heads=8, head_size=28, node_hidden_size=12, edge_hidden_sizes=(32, 8)
    )
    assert sum(parameter.numel() for parameter in layer.parameters()) == 324_276


def test_deepcopy_is_independent():
    layer, (nodes, edges) = make_layer(), make_graph()
    clone = copy.deepcopy(layer)
    before = clone(nodes, edges)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(1.0)
    for ours, expected in zip(clone(nodes, edges), before, strict=True):
        assert torch.equal(ours, expected)


def test_repr_tells_the_sizes():
    text = repr(make_layer(update_edges=False))
    for part in ("node_size=6", "edge_size=5", "heads=2x3", "update_edges=False"):
        assert part in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node_size": 0}, "node_size must be a positive integer, got 0"),
        ({"num_heads": 2.0}, "num_heads must be a positive integer, got 2.0"),
        ({"edge_hidden_sizes": (16,)}, r"edge_hidden_sizes must be two sizes \(d_eh1, d_eh2\), got \(16,\)"),
        ({"edge_hidden_sizes": (16, 0)}, r"edge_hidden_sizes\[1\] must be a positive integer, got 0"),
        ({"dropout": 1.0}, "dropout must be at least 0 and less than 1, got 1.0"),
    ],
)
def test_wrong_sizes_are_named(changes: dict, message: str):
    with pytest.raises(ValueError, match=message):
        RelationalTransformerLayer(**{**SIZES, **changes})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.randn(4, 5), torch.randn(4, 4, 5)), r"nodes must have 6 channels in its last axis, got shape \[4, 5\]"),
        ((torch.randn(4, 6), torch.randn(4, 4, 6)), "edges must have 5 channels in its last axis"),
        ((torch.randn(4, 6), torch.randn(4, 5, 5)), r"edges must be \[..., 4, 4, edge_size\]"),
        ((torch.randn(4, 6), torch.randn(4, 4, 5), torch.ones(4)), "node_mask must be a bool tensor"),
        ((torch.randn(4, 6), torch.randn(4, 4, 5), torch.ones(3, dtype=torch.bool)), r"node_mask must be \[..., 4\]"),
    ],
)
def test_wrong_inputs_are_named(arguments: tuple, message: str):
    with pytest.raises(ValueError, match=message):
        make_layer()(*arguments)
