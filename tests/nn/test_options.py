"""Variants of the layer: each against the equations, under torch's tools, and beside padding."""

from importlib import import_module
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from relational_transformer import (
    LayerOptions,
    RelationalAttention,
    RelationalTransformer,
    RelationalTransformerLayer,
    relational_attention,
)
from relational_transformer.nn.kernels import fits_one_kernel, use_kernels
from relational_transformer.nn.plain import is_plain
from tests.nn import oracle
from tests.nn.graphs import SIZES, make_graph, make_layer, make_stack

EACH = [
    LayerOptions(pre_norm=True),
    LayerOptions(norm="rms"),
    LayerOptions(activation="gelu"),
    LayerOptions(activation="swiglu"),
    LayerOptions(log_scaling_size=3),
]
ALL = [
    LayerOptions(pre_norm=pre_norm, norm=norm, activation=activation)
    for pre_norm, norm, activation in product([False, True], ["layer", "rms"], ["relu", "gelu", "swiglu"])
]
MANY = LayerOptions(pre_norm=True, norm="rms", activation="swiglu", log_scaling_size=3)
each_option = pytest.mark.parametrize("options", [*EACH, MANY], ids=str)


def make_bias(num_heads: int = 2, num_nodes: int = 4) -> Tensor:
    """Numbers, some pairs hidden from some heads, and one node that hears nothing in one head."""
    bias = torch.randn(num_heads, num_nodes, num_nodes)
    bias = bias.masked_fill(torch.rand(num_heads, num_nodes, num_nodes) < 0.3, -torch.inf)
    bias[1, 2] = -torch.inf
    return bias


@pytest.mark.usefixtures("double")
class TestAgainstTheEquations:
    @pytest.mark.parametrize("options", [*ALL, LayerOptions(log_scaling_size=2), MANY], ids=str)
    @pytest.mark.parametrize("update_edges", [True, False])
    def test_values_of_a_layer(self, options: LayerOptions, update_edges: bool):
        layer, (nodes, edges) = make_layer(options=options, update_edges=update_edges), make_graph()
        mask, bias = torch.rand(4, 4) < 0.7, make_bias()
        got = layer(nodes, edges, attention_mask=mask, attention_bias=bias)
        for ours, expected in zip(got, oracle.run_layer(layer, nodes, edges, mask, bias=bias), strict=True):
            torch.testing.assert_close(ours, expected, rtol=0, atol=1e-10)

    @each_option
    def test_gradients_of_every_parameter(self, options: LayerOptions):
        layer, (nodes, edges) = make_layer(options=options), make_graph(num_nodes=3)
        names, parameters = zip(*layer.named_parameters(), strict=True)
        wanted = torch.randn(3, 6), torch.randn(3, 3, 5)

        def gradients(output):
            return torch.autograd.grad((output[0] * wanted[0]).sum() + (output[1] * wanted[1]).sum(), parameters)

        expected = gradients(oracle.run_layer(layer, nodes, edges))
        for name, got, want in zip(names, gradients(layer(nodes, edges)), expected, strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")

    @each_option
    def test_gradcheck_with_checkpointing(self, options: LayerOptions):
        options = LayerOptions(**{**vars(options), "gradient_checkpointing": True})
        layer, (nodes, edges) = make_layer(options=options), make_graph(num_nodes=3)
        inputs = nodes.requires_grad_(), edges.requires_grad_(), torch.randn(2, 3, 3, requires_grad=True)
        mask = torch.tensor([True, True, False])

        def run(nodes, edges, bias):
            return layer(nodes, edges, node_mask=mask, attention_bias=bias)

        assert torch.autograd.gradcheck(run, inputs)

    @pytest.mark.parametrize("mode", ["cat", "core", "att"])
    def test_values_of_a_stack(self, mode: str):
        model = make_stack(global_input_size=2, global_mode=mode, options=MANY)
        nodes, edges, globals, bias = torch.randn(4, 4), torch.randn(4, 4, 3), torch.randn(2), make_bias()
        expected = oracle.run_stack(model, nodes, edges, globals, bias)
        for ours, want in zip(model(nodes, edges, globals, attention_bias=bias), expected, strict=True):
            assert (ours is None) == (want is None)
            if ours is not None:
                torch.testing.assert_close(ours, want, rtol=0, atol=1e-10)

    def test_modules_that_have_to_be_called_give_the_same(self):
        layer, (nodes, edges) = make_layer(options=MANY), make_graph()
        expected = layer(nodes, edges)
        for module in layer.modules():
            module.register_forward_hook(lambda module, arguments, output: None)
        for ours, want in zip(layer(nodes, edges), expected, strict=True):
            torch.testing.assert_close(ours, want, rtol=0, atol=1e-12)


class TestAttentionDropout:
    def test_drops_weights_in_training_alone_and_keeps_their_mean(self):
        attention = RelationalAttention(node_size=6, edge_size=5, num_heads=2, dropout=0.5)
        nodes, edges = make_graph()
        several = attention(nodes.expand(20_000, 4, 6), edges.expand(20_000, 4, 4, 5)).messages
        attention.eval()
        exact = attention(nodes, edges).messages
        assert not torch.equal(several[0], several[1])
        torch.testing.assert_close(several.mean(0), exact, rtol=0, atol=0.05)
        assert torch.equal(attention(nodes, edges).messages, exact)

    def test_weights_that_are_asked_for_are_whole(self):
        attention = RelationalAttention(node_size=6, edge_size=5, num_heads=2, dropout=0.9)
        weights = attention(*make_graph(), need_weights=True).weights
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4))

    def test_a_layer_hands_it_to_its_attention_and_nothing_else(self):
        layer = make_layer(options=LayerOptions(attention_dropout=0.5))
        nodes, edges = make_graph()
        assert not torch.equal(layer(nodes, edges).nodes, layer(nodes, edges).nodes)
        for ours, plain in zip(layer.eval()(nodes, edges), oracle.run_layer(layer, nodes, edges), strict=True):
            torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-5)

    def test_checkpointing_drops_the_same_again(self):
        kept = LayerOptions(attention_dropout=0.5)
        again = LayerOptions(attention_dropout=0.5, gradient_checkpointing=True)
        gradients = []
        for options in (kept, again):
            torch.manual_seed(0)
            layer, (nodes, edges) = make_layer(options=options, dropout=0.25), make_graph()
            torch.manual_seed(1)
            layer(nodes, edges).nodes.square().sum().backward()
            gradients.append([parameter.grad for parameter in layer.parameters() if parameter.grad is not None])
        assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


class TestGradientCheckpointing:
    def test_keeps_the_inputs_of_a_layer_alone(self):
        kept = []
        for options in (LayerOptions(), LayerOptions(gradient_checkpointing=True)):
            layer, (nodes, edges) = make_layer(options=options), make_graph(num_nodes=8)
            saved: list[Tensor] = []

            def keep(tensor: Tensor, saved: list[Tensor] = saved) -> Tensor:
                saved.append(tensor)
                return tensor

            with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                output = layer(nodes.requires_grad_(), edges.requires_grad_())
            kept.append(sum(tensor.numel() for tensor in saved))
            del output
        assert kept[1] < 0.1 * kept[0]

    def test_keeps_everything_under_the_transforms_of_torch(self):
        plain, again = make_layer(), make_layer(options=LayerOptions(gradient_checkpointing=True))
        parameters, (nodes, edges) = dict(plain.named_parameters()), make_graph()

        def loss(layer: RelationalTransformerLayer, parameters: dict[str, Tensor]) -> Tensor:
            return functional_call(layer, parameters, (nodes, edges)).nodes.square().sum()

        expected = torch.func.grad(lambda parameters: loss(plain, parameters))(parameters)
        for name, gradient in torch.func.grad(lambda parameters: loss(again, parameters))(parameters).items():
            torch.testing.assert_close(gradient, expected[name])
        stacked = {name: torch.stack([value.detach()] * 3).requires_grad_() for name, value in parameters.items()}
        torch.vmap(lambda parameters: loss(again, parameters))(stacked).sum().backward()
        torch.testing.assert_close(stacked["node_output.weight"].grad[1], expected["node_output.weight"])

    def test_does_nothing_in_evaluation(self, monkeypatch: pytest.MonkeyPatch):
        layer = make_layer(options=LayerOptions(gradient_checkpointing=True)).eval()
        monkeypatch.setattr("relational_transformer.nn.layer.checkpoint", None)
        layer(*make_graph())


class TestLogScaling:
    def test_is_the_published_layer_at_its_size(self):
        published = make_layer()
        scaled = make_layer(options=LayerOptions(log_scaling_size=5))
        scaled.load_state_dict(published.state_dict())
        for num_nodes, same in ((5, True), (7, False), (3, False)):
            nodes, edges = make_graph(num_nodes=num_nodes)
            close = torch.allclose(scaled(nodes, edges).nodes, published(nodes, edges).nodes, rtol=0, atol=1e-5)
            assert close is same, num_nodes

    def test_padding_does_not_count(self):
        layer, (nodes, edges) = make_layer(options=LayerOptions(log_scaling_size=20)), make_graph(num_nodes=6)
        present = torch.arange(6) < 4
        alone, padded = layer(nodes[:4], edges[:4, :4]), layer(nodes, edges, present)
        torch.testing.assert_close(padded.nodes[:4], alone.nodes, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(padded.edges[:4, :4], alone.edges, rtol=1e-4, atol=1e-5)

    def test_scores_that_scale_keep_attention_as_sharp(self):
        """A score of 3 among zeros: ten times as many of them take nothing from its weight."""
        weights = []
        for num_nodes in (10, 100):
            query = torch.full((num_nodes, 1), 3.0)
            key = torch.zeros(num_nodes, 1)
            key[0] = 1.0
            edges, weight = torch.zeros(num_nodes, num_nodes, 1), torch.zeros(3, 1)
            output = relational_attention(
                query, key, key, edges, weight, num_heads=1, log_scaling_size=10, need_weights=True
            )
            weights.append(output.weights[0, 0, 0].item())
        assert weights[0] > 0.69
        assert weights[1] > weights[0]


class TestBiases:
    def test_a_row_hidden_from_every_head_is_zeros(self):
        attention = RelationalAttention(node_size=6, edge_size=5, num_heads=2)
        nodes, edges = make_graph()
        bias = torch.zeros(2, 4, 4, requires_grad=True)
        hidden = bias.masked_fill(torch.arange(4).unsqueeze(-1) == 2, -torch.inf)
        messages, weights = attention(nodes, edges, attention_bias=hidden, need_weights=True)
        assert messages[2].abs().max() == 0
        assert weights[:, 2].abs().max() == 0
        messages.square().sum().backward()
        assert bias.grad.isfinite().all()
        assert all(parameter.grad.isfinite().all() for parameter in attention.parameters())

    def test_minus_infinity_is_a_mask(self):
        attention = RelationalAttention(node_size=6, edge_size=5, num_heads=2)
        (nodes, edges), mask = make_graph(), torch.rand(4, 4) < 0.6
        bias = torch.zeros(1, 4, 4).masked_fill(~mask, -torch.inf)
        torch.testing.assert_close(
            attention(nodes, edges, attention_bias=bias).messages, attention(nodes, edges, attention_mask=mask).messages
        )

    @pytest.mark.parametrize("shape", [(1, 1, 1), (2, 1, 4), (1, 4, 1), (3, 2, 4, 4), (3, 1, 1, 4)])
    def test_axes_of_one_are_for_all(self, shape: tuple[int, ...]):
        attention = RelationalAttention(node_size=6, edge_size=5, num_heads=2)
        (nodes, edges), bias = make_graph(3), torch.randn(shape)
        whole = bias.expand(3, 2, 4, 4)
        torch.testing.assert_close(
            attention(nodes, edges, attention_bias=bias).messages,
            attention(nodes, edges, attention_bias=whole).messages,
        )

    def test_what_it_says_of_absent_nodes_does_not_matter(self):
        layer, (nodes, edges), present = make_layer(), make_graph(), torch.tensor([True, True, True, False])
        pairs = present & present.unsqueeze(-1)
        outputs = []
        for padding in (0.0, torch.nan, torch.inf, -torch.inf, 1e30):
            bias = torch.linspace(-1, 1, 32).view(2, 4, 4).masked_fill(~pairs, padding).requires_grad_()
            output = layer(nodes, edges, present, attention_bias=bias)
            (gradient,) = torch.autograd.grad(output.nodes[present].sum(), bias)
            outputs.append((output.nodes[present], output.edges[pairs], gradient))
        for other in outputs[1:]:
            assert all(torch.equal(one, two) for one, two in zip(outputs[0], other, strict=True))

    def test_it_reaches_the_core_node_as_nothing(self):
        model = make_stack(global_input_size=2, global_mode="core")
        graph = torch.randn(3, 4, 4), torch.randn(3, 4, 4, 3), torch.randn(3, 2)
        for ours, plain in zip(model(*graph, attention_bias=torch.zeros(1, 1, 1)), model(*graph), strict=True):
            torch.testing.assert_close(ours, plain)

    @pytest.mark.parametrize(
        ("bias", "message"),
        [
            (
                torch.zeros(3, 4, 4),
                r"attention_bias must be \[..., 2, 4, 4\] \(heads, queries, keys; 1 for all",
            ),
            (torch.zeros(4, 4), r"attention_bias must be \[..., 2, 4, 4\]"),
            (torch.zeros(2, 4, 4, dtype=torch.bool), "attention_bias must be a floating-point tensor, got torch.bool"),
            (0.5, "attention_bias must be a tensor, got float"),
            (torch.zeros(2, 4, 4, device="meta"), "attention_bias must be on the device of what attends"),
        ],
    )
    def test_wrong_ones_are_named(self, bias: object, message: str):
        with pytest.raises(ValueError, match=message):
            make_layer()(*make_graph(), attention_bias=bias)


class TestWhereTheyAreMade:
    @pytest.mark.parametrize("options", [LayerOptions(), MANY], ids=str)
    def test_device_and_dtype_of_every_parameter(self, options: LayerOptions):
        sizes = {"node_size": 6, "edge_size": 5, "num_heads": 2, "options": options}
        for dtype in (torch.float64, torch.bfloat16):
            model = RelationalTransformer(4, 3, 2, global_mode="core", dtype=dtype, device="cpu", **sizes)
            assert {parameter.dtype for parameter in model.parameters()} == {dtype}
        layer = RelationalTransformerLayer(device="meta", **sizes)
        assert all(parameter.is_meta for parameter in layer.parameters())

    def test_half_precision_is_initialised_as_finely_as_full(self):
        torch.manual_seed(0)
        half = RelationalAttention(node_size=64, edge_size=32, num_heads=4, dtype=torch.bfloat16)
        torch.manual_seed(0)
        full = RelationalAttention(node_size=64, edge_size=32, num_heads=4)
        for one, other in zip(half.parameters(), full.parameters(), strict=True):
            assert torch.equal(one, other.bfloat16())

    def test_sizes_that_are_not_given(self):
        layer = RelationalTransformerLayer(node_size=12, edge_size=4, num_heads=3)
        assert (layer.head_size, layer.attention.head_size, layer.node_hidden_size) == (4, 4, 24)
        model = RelationalTransformer(2, 2, node_size=12, edge_size=4, num_heads=3)
        assert (model.head_size, model.node_hidden_size) == (4, 24)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                {"num_heads": 4, "head_size": None},
                "num_heads must divide node_size=6 where no head_size is given, got num_heads=4",
            ),
            ({"dtype": torch.int8}, r"dtype must be a floating-point dtype, got torch\.int8"),
            ({"device": "nowhere"}, "device must be one that is here, got 'nowhere'"),
            ({"options": {"norm": "rms"}}, "options must be LayerOptions, got dict"),
        ],
    )
    def test_wrong_ones_are_named(self, changes: dict, message: str):
        for build in (RelationalTransformerLayer, lambda **sizes: RelationalTransformer(4, 3, **sizes)):
            with pytest.raises(ValueError, match=message):
                build(**{**SIZES, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pre_norm": 1}, "pre_norm must be True or False, got 1"),
        ({"norm": "batch"}, "norm must be one of layer, rms, got 'batch'"),
        ({"activation": torch.relu}, "activation must be one of relu, gelu, swiglu, got"),
        ({"attention_dropout": 1.0}, "attention_dropout must be at least 0 and less than 1, got 1.0"),
        ({"log_scaling_size": 1}, "log_scaling_size must be at least 2, got 1"),
        ({"log_scaling_size": 2.5}, "log_scaling_size must be a positive integer, got 2.5"),
        ({"gradient_checkpointing": None}, "gradient_checkpointing must be True or False, got None"),
    ],
)
def test_options_that_cannot_be_are_named(changes: dict, message: str):
    with pytest.raises(ValueError, match=message):
        LayerOptions(**changes)


def test_the_defaults_are_the_published_layer():
    names = set(dict(RelationalTransformer(4, 3, **SIZES, num_layers=1).named_parameters()))
    inside = {name.removeprefix("layers.0.") for name in names if name.startswith("layers.")}
    modules = [
        "attention.node_qkv", "attention.edge_qkv", "node_output", "node_norm", "node_feed_forward_in",
        "node_feed_forward_out", "node_feed_forward_norm", "edge_update.message_in", "edge_update.message_out",
        "edge_update.norm", "edge_update.feed_forward_in", "edge_update.feed_forward_out",
        "edge_update.feed_forward_norm",
    ]  # fmt: skip
    assert inside == {f"{name}.{kind}" for name in modules for kind in ("weight", "bias")}
    assert {name.split(".")[0] for name in names} == {"node_input", "edge_input", "layers"}


def test_a_representation_names_options_that_are_not_the_published():
    assert "options" not in repr(make_layer())
    assert "LayerOptions(pre_norm=True, norm='layer'" in repr(make_layer(options=LayerOptions(pre_norm=True)))


PAPER = {"node_size": 192, "edge_size": 192, "num_heads": 12, "head_size": 16, "node_hidden_size": 32}


@pytest.fixture
def _pretended_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the whole-layer kernels could run here."""
    fitting = import_module("relational_transformer.nn.kernels.whole_layer.fitting")
    monkeypatch.setattr(fitting, "_has_device", lambda tensor: True)


class TestWhichPathRuns:
    @pytest.mark.usefixtures("_pretended_device")
    @pytest.mark.parametrize("options", [*EACH, LayerOptions(attention_dropout=0.5)], ids=str)
    def test_a_variant_is_never_one_kernel(self, options: LayerOptions):
        nodes, edges = torch.randn(1, 6, 192).bfloat16(), torch.randn(1, 6, 6, 192).bfloat16()
        published = RelationalTransformerLayer(**PAPER, dtype=torch.bfloat16)
        variant = RelationalTransformerLayer(**PAPER, dtype=torch.bfloat16, options=options)
        assert fits_one_kernel(published, nodes, edges)
        assert not fits_one_kernel(variant, nodes, edges)

    @pytest.mark.usefixtures("_pretended_device")
    def test_a_bias_is_never_lost_to_a_kernel(self):
        layer = RelationalTransformerLayer(**PAPER, dtype=torch.bfloat16)
        nodes, edges = torch.randn(6, 192).bfloat16(), torch.randn(6, 6, 192).bfloat16()
        bias = torch.zeros(1, 6, 6).masked_fill(torch.eye(6, dtype=torch.bool), -torch.inf)
        mask = ~torch.eye(6, dtype=torch.bool)
        with use_kernels("auto"):
            ours = layer(nodes, edges, attention_bias=bias)
        torch.testing.assert_close(ours.nodes, layer(nodes, edges, attention_mask=mask).nodes)

    @pytest.mark.parametrize("options", [*EACH, LayerOptions(attention_dropout=0.5)], ids=str)
    def test_a_variant_with_kernels_turned_on(self, options: LayerOptions):
        pytest.importorskip("triton")
        layer, (nodes, edges) = make_layer(options=options).eval(), make_graph(2)
        bias = torch.randn(2, 4, 4)
        expected = layer(nodes, edges, attention_bias=bias)
        with use_kernels(True):
            ours = layer(nodes, edges, attention_bias=bias)
        for one, other in zip(ours, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)

    def test_norms_of_variants_are_called(self):
        assert not is_plain(make_layer(options=LayerOptions(norm="rms")).node_norm)
