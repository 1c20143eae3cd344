"""The layers under PyTorch's own tools: compile, export, ONNX, autocast, vmap."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from relational_transformer import LayerOptions, RelationalTransformer, RelationalTransformerLayer
from tests.nn.graphs import make_graph, make_layer, make_stack

PUBLISHED = LayerOptions()
VARIANT = LayerOptions(pre_norm=True, norm="rms", activation="swiglu", log_scaling_size=5)
OTHER = LayerOptions(activation="gelu", attention_dropout=0.5, gradient_checkpointing=True)
"""Which drops and checkpoints in training alone."""
every_option = pytest.mark.parametrize("options", [PUBLISHED, VARIANT, OTHER], ids=["published", "variant", "other"])


@pytest.fixture
def _quiet_tools():
    """Exporters and compilers of torch warn about their own internals."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def outputs_and_gradients(
    call: Callable, layer: RelationalTransformerLayer, *inputs, **arguments
) -> list[torch.Tensor]:
    layer.zero_grad()
    out = call(*inputs, **arguments)
    (out.nodes.square().sum() + out.edges.square().sum()).backward()
    return [out.nodes, out.edges, *(parameter.grad.clone() for parameter in layer.parameters())]


@pytest.mark.usefixtures("_quiet_tools")
@every_option
def test_compiles_as_one_graph_for_varying_sizes(options: LayerOptions):
    layer = make_layer(options=options).eval()
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for num_nodes in (3, 5, 9):
        graph = make_graph(2, num_nodes=num_nodes)
        mask, bias = torch.rand(2, num_nodes) < 0.8, torch.randn(2, num_nodes, num_nodes)
        arguments = {"node_mask": mask} | ({} if options == PUBLISHED else {"attention_bias": bias})
        results = (outputs_and_gradients(call, layer, *graph, **arguments) for call in (compiled, layer))
        for ours, expected in zip(*results, strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.usefixtures("_quiet_tools")
@pytest.mark.parametrize("options", [PUBLISHED, LayerOptions(gradient_checkpointing=True)], ids=str)
def test_compiles_with_inductor_forward_and_backward(options: LayerOptions):
    layer = make_layer(options=options)
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True)
    for num_nodes in (3, 5, 9):
        graph = make_graph(2, num_nodes=num_nodes)
        results = (outputs_and_gradients(call, layer, *graph) for call in (compiled, layer))
        for ours, expected in zip(*results, strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("mode", "options"),
    [("cat", PUBLISHED), ("core", PUBLISHED), ("att", PUBLISHED), ("core", VARIANT), ("att", OTHER)],
)
def test_vmap_over_stacked_parameters(mode: str, options: LayerOptions):
    models = [make_stack(global_input_size=2, global_mode=mode, options=options).eval() for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    nodes, edges, globals = torch.randn(3, 2, 4, 4), torch.randn(3, 2, 4, 4, 3), torch.randn(3, 2, 2)

    def run(parameters, buffers, *inputs):
        return functional_call(models[0], (parameters, buffers), inputs)[:2]

    together = vmap(run)(parameters, buffers, nodes, edges, globals)
    for k, model in enumerate(models):
        alone = model(nodes[k], edges[k], globals[k])
        torch.testing.assert_close(together[0][k], alone.nodes, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(together[1][k], alone.edges, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [PUBLISHED, VARIANT], ids=["published", "variant"])
def test_autocast_stays_close_and_finite(options: LayerOptions):
    layer = make_layer(node_size=32, edge_size=16, num_heads=4, head_size=8, options=options)
    nodes, edges = make_graph(2, num_nodes=9, node_size=32, edge_size=16)
    exact = layer(nodes, edges)
    with torch.autocast("cpu", torch.bfloat16):
        rough = layer(nodes, edges, attention_mask=torch.ones(9, 9, dtype=torch.bool))
    for ours, expected in zip(rough, exact, strict=True):
        error = (ours.float() - expected).norm() / expected.norm()
        assert error < 0.03
    rough.nodes.float().square().sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in layer.parameters())


@every_option
def test_whole_model_in_bfloat16_and_double(options: LayerOptions):
    for dtype in (torch.bfloat16, torch.float64):
        layer = make_layer(options=options).to(dtype)
        out = layer(*(tensor.to(dtype) for tensor in make_graph(2)), attention_bias=torch.zeros(2, 4, 4, dtype=dtype))
        assert out.nodes.dtype == out.edges.dtype == dtype


@pytest.mark.usefixtures("_quiet_tools")
def test_a_model_that_could_be_kernels_is_exported_for_any_number_of_nodes():
    """At the paper's sizes in bfloat16 a layer of few nodes may be one kernel; nothing of that is in the export."""
    sizes = {"node_size": 192, "edge_size": 192, "num_heads": 12, "head_size": 16, "node_hidden_size": 32}
    layer = RelationalTransformerLayer(**sizes).bfloat16()
    size = torch.export.Dim("num_nodes", min=2, max=64)
    inputs = torch.randn(1, 6, 192).bfloat16(), torch.randn(1, 6, 6, 192).bfloat16()
    shapes = {"nodes": {1: size}, "edges": {1: size, 2: size}}
    program = torch.export.export(layer, inputs, dynamic_shapes={**shapes})
    nodes, edges = torch.randn(1, 30, 192).bfloat16(), torch.randn(1, 30, 30, 192).bfloat16()
    assert program.module()(nodes, edges).edges.shape == (1, 30, 30, 192)


@pytest.mark.usefixtures("_quiet_tools")
@every_option
def test_torch_export_with_a_dynamic_number_of_nodes(options: LayerOptions):
    model = make_stack(options=options).eval()
    nodes, edges, bias = torch.randn(2, 6, 4), torch.randn(2, 6, 6, 3), torch.randn(2, 6, 6)
    size = torch.export.Dim("num_nodes", min=2, max=64)
    shapes = {"nodes": {1: size}, "edges": {1: size, 2: size}}
    arguments = {} if options == PUBLISHED else {"attention_bias": bias}
    if arguments:
        shapes["attention_bias"] = {1: size, 2: size}
    program = torch.export.export(model, (nodes, edges), arguments, dynamic_shapes=shapes)
    nodes, edges, bias = torch.randn(2, 9, 4), torch.randn(2, 9, 9, 3), torch.randn(2, 9, 9)
    arguments = {"attention_bias": bias} if arguments else {}
    ours, expected = program.module()(nodes, edges, **arguments), model(nodes, edges, **arguments)
    torch.testing.assert_close(ours.nodes, expected.nodes, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("_quiet_tools")
@every_option
def test_onnx_runtime_agrees(options: LayerOptions, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")

    class Masked(torch.nn.Module):
        def __init__(self, model: RelationalTransformer) -> None:
            super().__init__()
            self.model = model

        def forward(self, nodes, edges, node_mask, bias):
            out = self.model(nodes, edges, node_mask=node_mask, attention_bias=None if options == PUBLISHED else bias)
            return out.nodes, out.edges

    module = Masked(make_stack(options=options)).eval()
    size = torch.export.Dim("num_nodes", min=2, max=64)
    inputs = torch.randn(2, 6, 4), torch.randn(2, 6, 6, 3), torch.rand(2, 6) < 0.7, torch.randn(2, 6, 6)
    path, pairs = tmp_path / "model.onnx", {1: size, 2: size}
    torch.onnx.export(
        module,
        inputs,
        path,
        dynamo=True,
        verbose=False,
        dynamic_shapes={"nodes": {1: size}, "edges": pairs, "node_mask": {1: size}, "bias": pairs},
    )
    session = onnxruntime.InferenceSession(path)
    inputs = torch.randn(2, 9, 4), torch.randn(2, 9, 9, 3), torch.rand(2, 9) < 0.7, torch.randn(2, 9, 9)
    names = [argument.name for argument in session.get_inputs()]
    outputs = session.run(None, {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=False)})
    for ours, expected in zip(outputs, module(*inputs), strict=True):
        np.testing.assert_allclose(ours, expected.detach().numpy(), rtol=1e-4, atol=1e-5)
