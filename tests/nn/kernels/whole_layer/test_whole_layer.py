"""A layer as one kernel, run by the emulator: exactness, order of the warps, fleets, compilers, and when it is used."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from relational_transformer import RelationalAttention, RelationalTransformerLayer
from relational_transformer.nn import AttentionOutput, LayerOutput, kernels, record_attention
from relational_transformer.nn.kernels.whole_layer import is_one_kernel, launching
from relational_transformer.nn.kernels.whole_layer.operator import OPERATORS, relational_layer

from .emulation import COMPILER, emulated, recording

pytestmark = pytest.mark.skipif(COMPILER is None, reason="the emulator needs g++ on x86-64")

SIZES = {"node_size": 192, "edge_size": 192, "num_heads": 12, "head_size": 16, "node_hidden_size": 32}


with_and_without_edge_update = pytest.mark.parametrize("update_edges", [True, False], ids=["edges", "no_edges"])


def make_layer(seed: int, update_edges: bool = True) -> RelationalTransformerLayer:
    """A layer whose parameters are bfloat16 numbers, norms and biases away from where they start."""
    torch.manual_seed(seed)
    layer = RelationalTransformerLayer(**SIZES, update_edges=update_edges)
    move_parameters(layer)
    return layer


@torch.no_grad()
def move_parameters(layer: nn.Module) -> None:
    """Norms and biases away from where they start, and all parameters to bfloat16 numbers."""
    for name, parameter in layer.named_parameters():
        if name.endswith("norm.weight"):
            parameter.copy_(1 + 0.2 * torch.randn_like(parameter))
        elif name.endswith("bias"):
            parameter.copy_(0.2 * torch.randn_like(parameter))
        parameter.copy_(parameter.bfloat16())


def make_inputs(*batch: int, nodes: int) -> tuple[Tensor, Tensor]:
    return torch.randn(*batch, nodes, 192).bfloat16(), torch.randn(*batch, nodes, nodes, 192).bfloat16()


def as_kernel(layer: RelationalTransformerLayer) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The layer as one kernel, wherever it would run by itself."""
    return lambda nodes, edges: relational_layer(nodes, edges, dict(layer.named_parameters()))


def outputs_and_gradients(run: Callable, layer: RelationalTransformerLayer, inputs, gradients) -> list[Tensor]:
    inputs = [tensor.detach().requires_grad_() for tensor in inputs]
    outputs = run(*inputs)
    return [*outputs, *torch.autograd.grad(outputs, [*inputs, *layer.parameters()], gradients)]


@with_and_without_edge_update
@pytest.mark.parametrize(("nodes", "graphs"), [(16, 2), (20, 2), (5, 8)])
def test_it_is_as_exact_as_the_plain_layer_in_bfloat16(nodes: int, graphs: int, update_edges: bool):
    inputs, gradients = make_inputs(graphs, nodes=nodes), make_inputs(graphs, nodes=nodes)
    found = {}
    for path, dtype in (("fused", torch.bfloat16), ("plain", torch.bfloat16), ("exact", torch.float64)):
        layer = make_layer(nodes, update_edges).to(dtype)
        run = as_kernel(layer) if path == "fused" else layer
        cast = [[tensor.to(dtype) for tensor in tensors] for tensors in (inputs, gradients)]
        found[path] = [tensor.double() for tensor in outputs_and_gradients(run, layer, *cast)]
    names = ["new nodes", "new edges", "nodes", "edges", *OPERATORS[update_edges].names]
    for name, fused, plain, exact in zip(names, found["fused"], found["plain"], found["exact"], strict=True):
        assert (fused - exact).norm() <= 2 * (plain - exact).norm(), name


@with_and_without_edge_update
def test_the_order_of_the_warps_changes_no_bit(update_edges: bool):
    layer = make_layer(0, update_edges).bfloat16()
    inputs, gradients = make_inputs(1, nodes=16), make_inputs(1, nodes=16)
    found = []
    for order in (0, 1, 2, 3):
        launching.set_emulator(emulated(order))
        found.append(outputs_and_gradients(as_kernel(layer), layer, inputs, gradients))
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))


@with_and_without_edge_update
def test_a_fleet_compiled_or_not_is_its_layers_one_by_one(update_edges: bool):
    layers = [make_layer(seed, update_edges).bfloat16() for seed in (1, 2)]
    inputs, gradients = make_inputs(2, 1, nodes=16), make_inputs(2, 1, nodes=16)
    alone = [
        outputs_and_gradients(
            as_kernel(layer),
            layer,
            [tensor[seed] for tensor in inputs],
            [tensor[seed] for tensor in gradients],
        )
        for seed, layer in enumerate(layers)
    ]
    stacked, _ = stack_module_state(layers)
    parameters = {name: tensor.detach().requires_grad_() for name, tensor in stacked.items()}
    fleet = vmap(lambda parameters, nodes, edges: tuple(functional_call(layers[0], parameters, (nodes, edges))))
    with kernels.use_kernels(True):
        for run in (fleet, torch.compile(fleet, backend="aot_eager", fullgraph=True)):
            leaves = [tensor.detach().requires_grad_() for tensor in inputs]
            outputs = run(parameters, *leaves)
            found = [*outputs, *torch.autograd.grad(outputs, [*leaves, *parameters.values()], gradients)]
            for one, *separate in zip(found, *alone, strict=True):
                torch.testing.assert_close(one, torch.stack(separate), rtol=0.01, atol=0.01 * one.abs().max().item())


def test_a_layer_is_one_kernel_only_where_it_can_be():
    layer, (nodes, edges) = make_layer(0).bfloat16(), make_inputs(1, nodes=16)
    assert is_one_kernel(layer, nodes, edges)
    assert is_one_kernel(make_layer(0, update_edges=False), nodes, edges)
    assert not is_one_kernel(layer, nodes.float(), edges.float())
    assert not is_one_kernel(layer, *make_inputs(1, nodes=21))
    assert not is_one_kernel(RelationalTransformerLayer(**{**SIZES, "node_hidden_size": 64}), nodes, edges)
    with kernels.use_kernels(False):
        assert not is_one_kernel(layer, nodes, edges)
    launching.set_emulator(None)
    assert not is_one_kernel(layer, nodes, edges)


def test_masks_take_another_path():
    layer, (nodes, edges) = make_layer(0).bfloat16(), make_inputs(1, nodes=6)
    launched: list[str] = []
    launching.set_emulator(recording(launched))
    with kernels.use_kernels(True):
        layer(nodes, edges, node_mask=torch.tensor([True] * 5 + [False]))
        assert launched == ["attention_rows", "edge_update_rows"]
        layer(nodes, edges)
        assert launched[2:] == ["layer_forward"]


def test_edges_without_an_update_are_those_that_were_given():
    layer, (nodes, edges) = make_layer(0, update_edges=False).bfloat16(), make_inputs(1, nodes=5)
    with kernels.use_kernels(True):
        new_nodes, new_edges = layer(nodes, edges)
    assert new_edges is edges
    assert not torch.equal(new_nodes, nodes)


@with_and_without_edge_update
def test_the_operator_keeps_the_rules_of_torch(update_edges: bool):
    layer, (nodes, edges) = make_layer(0, update_edges).bfloat16(), make_inputs(1, 1, nodes=5)
    parameters = [parameter.detach().unsqueeze(0) for parameter in layer.parameters()]
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(OPERATORS[update_edges].forward, (nodes, edges, *parameters), test_utils=checks)


class Named(RelationalTransformerLayer):
    """A subclass that computes what its base does."""


class Doubled(RelationalTransformerLayer):
    def forward(self, *arguments, **options) -> LayerOutput:
        nodes, edges = super().forward(*arguments, **options)
        return LayerOutput(2 * nodes, edges)


class Silent(RelationalAttention):
    def forward(self, *arguments, **options) -> AttentionOutput:
        output = super().forward(*arguments, **options)
        return output._replace(messages=torch.zeros_like(output.messages))


@pytest.fixture
def launched() -> list:
    """What is launched from now on, and not run."""
    calls = []
    launching.set_emulator(lambda *arguments: calls.append(arguments))
    return calls


def test_a_subclass_keeps_the_kernel_unless_it_has_a_forward_of_its_own():
    nodes, edges = make_inputs(1, nodes=5)
    assert is_one_kernel(Named(**SIZES).bfloat16(), nodes, edges)
    assert not is_one_kernel(Doubled(**SIZES).bfloat16(), nodes, edges)


def test_a_forward_that_calls_that_of_the_layer_gets_its_kernel(launched: list):
    Doubled(**SIZES).bfloat16()(*make_inputs(1, nodes=5))
    assert len(launched) == 1


def test_an_attention_with_a_forward_of_its_own_is_called(launched: list):
    layer, (nodes, edges) = make_layer(0).bfloat16(), make_inputs(1, nodes=5)
    layer.attention = Silent(node_size=192, edge_size=192, num_heads=12, head_size=16).bfloat16()
    assert not is_one_kernel(layer, nodes, edges)
    silenced = layer(nodes, edges)
    assert not launched
    nn.init.zeros_(layer.node_output.weight)
    torch.testing.assert_close(layer(nodes, edges).nodes, silenced.nodes)


@pytest.mark.parametrize("name", ["attention.edge_qkv", "node_norm", "edge_update.message_in", "edge_update"])
def test_modules_with_hooks_are_called(name: str, launched: list):
    layer, inputs, calls = make_layer(0).bfloat16(), make_inputs(1, nodes=5), []
    handle = layer.get_submodule(name).register_forward_hook(lambda *_: calls.append(name))
    layer(*inputs)
    assert len(calls) == 1
    assert not launched
    handle.remove()
    layer(*inputs)
    assert len(launched) == 1


def test_a_hook_on_the_layer_itself_leaves_it_its_kernel(launched: list):
    layer, calls = make_layer(0).bfloat16(), []
    layer.register_forward_hook(lambda *_: calls.append(True))
    layer(*make_inputs(1, nodes=5))
    assert len(calls) == len(launched) == 1


def test_attention_is_recorded_in_a_layer_that_could_be_a_kernel(launched: list):
    layer, inputs = make_layer(0).bfloat16(), make_inputs(1, nodes=5)
    with record_attention(layer) as recorded:
        layer(*inputs)
    assert recorded["attention"][0].shape == (1, 12, 5, 5)
    assert not launched
