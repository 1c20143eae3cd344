"""A Linear or LayerNorm with a hook is called, and the result is that of the path which reads its weights."""

import warnings
from collections.abc import Iterable

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from relational_transformer import RelationalTransformer
from relational_transformer.nn.padding import present_edges, present_nodes
from tests.nn.graphs import make_graph, make_layer, make_stack

MODES = ("cat", "core", "att")
LEAVES = [name for name, module in make_layer().named_modules() if isinstance(module, nn.Linear | nn.LayerNorm)]


def record_calls(model: nn.Module) -> set[str]:
    """Names of the Linears and LayerNorms that are called from now on. Nothing in the model is plain any more."""
    called: set[str] = set()
    for name in leaves(model):
        model.get_submodule(name).register_forward_hook(lambda *_, name=name: called.add(name))
    return called


def leaves(model: nn.Module) -> set[str]:
    return {name for name, module in model.named_modules() if isinstance(module, nn.Linear | nn.LayerNorm)}


def call_all(model: nn.Module) -> None:
    """Make every module of the model be called, by hooks that compilers see through."""
    for name in leaves(model):
        model.get_submodule(name).register_forward_hook(lambda module, arguments, output: output + 0.0)


def make_inputs() -> dict[str, Tensor]:
    nodes, edges = torch.randn(2, 5, 4), torch.randn(2, 5, 5, 3)
    return {
        "nodes": nodes,
        "edges": edges,
        "globals": torch.randn(2, 2),
        "node_mask": torch.tensor([[True] * 5, [True] * 3 + [False] * 2]),
        "attention_mask": torch.rand(2, 5, 5) < 0.7,
    }


def of_present(inputs: dict[str, Tensor], nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Zeros in place of absent nodes, which may come out as anything."""
    return present_nodes(nodes, inputs["node_mask"]), present_edges(edges, inputs["node_mask"])


def with_gradients(model: RelationalTransformer, inputs: dict[str, Tensor]) -> list[Tensor]:
    nodes, edges = of_present(inputs, *model(**inputs)[:2])
    loss = (nodes * nodes.detach().cos()).sum() + (edges * edges.detach().cos()).sum()
    return [nodes, edges, *torch.autograd.grad(loss, list(model.parameters()))]


def assert_all_close(got: Iterable[Tensor], expected: Iterable[Tensor], tolerance: float = 1e-10) -> None:
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("mode", MODES)
def test_every_module_is_called_and_values_and_gradients_stay(mode: str):
    model, inputs = make_stack(global_input_size=2, global_mode=mode), make_inputs()
    expected = with_gradients(model, inputs)
    called = record_calls(model)
    assert_all_close(with_gradients(model, inputs), expected)
    assert called == leaves(model)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", LEAVES)
def test_one_module_alone_is_called(name: str):
    layer, graph = make_layer(), make_graph(2)
    expected = layer(*graph)
    outputs = []
    layer.get_submodule(name).register_forward_hook(lambda module, arguments, output: outputs.append(output))
    assert_all_close(layer(*graph), expected)
    assert len(outputs) == 1


@pytest.mark.parametrize("name", LEAVES)
def test_what_a_hook_returns_takes_the_place_of_the_output(name: str):
    layer, graph = make_layer(), make_graph(2)
    before = layer(*graph)
    layer.get_submodule(name).register_forward_hook(lambda module, arguments, output: output * 1.5)
    after = layer(*graph)
    assert not torch.allclose(after.edges, before.edges)


@pytest.mark.usefixtures("double")
def test_cross_attention_calls_its_modules():
    attention = make_layer().attention
    nodes, context, edges = torch.randn(3, 6), torch.randn(5, 6), torch.randn(3, 5, 5)
    expected = attention(nodes, edges, context=context, need_weights=True)
    called = record_calls(attention)
    assert_all_close(attention(nodes, edges, context=context, need_weights=True), expected)
    assert called == {"node_qkv", "edge_qkv"}


def test_the_same_units_are_dropped_on_both_paths():
    layer, graph = make_layer(dropout=0.5), make_graph(2)
    torch.manual_seed(1)
    expected = layer(*graph)
    call_all(layer)
    torch.manual_seed(1)
    assert_all_close(layer(*graph), expected, 1e-4)


def test_what_absent_nodes_hold_reaches_nothing_where_modules_are_called():
    layer, (nodes, edges) = make_layer(), make_graph(2)
    call_all(layer)
    present = torch.tensor([True, True, True, False])
    expected = layer(nodes, edges, node_mask=present)
    nodes[:, 3], edges[:, 3], edges[:, :, 3] = torch.nan, torch.nan, torch.nan
    for attention_mask in (None, torch.ones(4, 4, dtype=torch.bool)):
        output = layer(nodes, edges, node_mask=present, attention_mask=attention_mask)
        assert_all_close([output.nodes[:, :3]], [expected.nodes[:, :3]], 1e-5)
        assert_all_close([output.edges[:, :3, :3]], [expected.edges[:, :3, :3]], 1e-5)
        layer.zero_grad()
        (output.nodes[:, :3].square().sum() + output.edges[:, :3, :3].square().sum()).backward()
        assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


def test_other_modules_may_stand_where_linears_and_norms_were():
    layer, (nodes, edges) = make_layer(), make_graph(2)
    layer.attention.edge_qkv = nn.Sequential(nn.Linear(5, 2), nn.Linear(2, 18))
    layer.edge_update.message_in = nn.Linear(22, 4, bias=False)
    layer.edge_update.norm = nn.RMSNorm(5)
    layer.node_norm = nn.Identity()
    output = layer(nodes, edges)
    assert output.nodes.shape == nodes.shape
    assert output.edges.shape == edges.shape


@pytest.mark.parametrize("mode", MODES)
def test_it_compiles_as_one_graph_and_runs_under_vmap(mode: str):
    models = [make_stack(global_input_size=2, global_mode=mode) for _ in range(2)]
    parameters, _ = stack_module_state(models)
    inputs = make_inputs()

    def run(model: nn.Module) -> tuple[Tensor, Tensor]:
        return of_present(inputs, *model(**inputs)[:2])

    expected = [run(model) for model in models]
    for model in models:
        call_all(model)
    torch.compiler.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # compilers warn about their own internals
        compiled = run(torch.compile(models[0], fullgraph=True, backend="aot_eager"))  # pyright: ignore[reportArgumentType]
    assert_all_close(compiled, expected[0], 1e-4)
    fleet = vmap(lambda parameters: functional_call(models[0], parameters, (), inputs)[:2])(parameters)
    assert_all_close(of_present(inputs, *fleet), [torch.stack(both) for both in zip(*expected, strict=True)], 1e-4)


def test_autocast_and_export_take_modules_with_hooks():
    layer, graph = (
        make_layer(node_size=32, edge_size=16, num_heads=4, head_size=8),
        make_graph(2, num_nodes=9, node_size=32, edge_size=16),
    )
    expected = layer(*graph)
    call_all(layer)
    with torch.autocast("cpu", torch.bfloat16):
        rough = layer(*graph)
    for got, exact in zip(rough, expected, strict=True):
        assert (got.float() - exact).norm() / exact.norm() < 0.03
    size = torch.export.Dim("num_nodes", min=2, max=64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # exporters warn about their own internals
        program = torch.export.export(layer, graph, dynamic_shapes={"nodes": {1: size}, "edges": {1: size, 2: size}})
    graph = make_graph(2, num_nodes=5, node_size=32, edge_size=16)
    assert_all_close(program.module()(*graph), layer(*graph), 1e-4)
