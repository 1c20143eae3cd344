"""The layer takes the kernels in place of the plain path when asked to."""

import pytest
import torch
from torch.func import functional_call, stack_module_state

from relational_transformer import RelationalTransformerLayer
from relational_transformer.nn import kernels
from tests.nn.kernels.cases import DEVICE


def test_a_layer_gives_the_same_with_and_without_kernels():
    torch.manual_seed(0)
    layer = RelationalTransformerLayer(node_size=12, edge_size=20, num_heads=3, head_size=8, node_hidden_size=16)
    layer = layer.to(DEVICE)
    nodes, edges = torch.randn(2, 4, 12, device=DEVICE), torch.randn(2, 4, 4, 20, device=DEVICE)
    mask = torch.rand(2, 4, device=DEVICE) < 0.8
    results = []
    for fused in (False, True):
        with kernels.use_kernels(fused):
            out = layer(nodes, edges, node_mask=mask)
            loss = out.nodes.square().sum() + (out.edges * edges).sum()
            results.append([*out, *torch.autograd.grad(loss, list(layer.parameters()))])
    for plain, fast in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore")  # compilers of torch warn about their own internals
def test_a_compiled_fleet_of_layers_gives_the_same_gradients():
    torch.manual_seed(0)
    sizes = {"node_size": 8, "edge_size": 16, "num_heads": 2, "head_size": 4, "node_hidden_size": 8}
    layers = [RelationalTransformerLayer(**sizes).to(DEVICE) for _ in range(2)]
    parameters, _ = stack_module_state(layers)
    nodes, edges = torch.randn(2, 1, 3, 8, device=DEVICE), torch.randn(2, 1, 3, 3, 16, device=DEVICE)
    leaves = [tensor.detach().requires_grad_() for tensor in (nodes, edges, *parameters.values())]

    def run(nodes, edges, *values):
        return functional_call(layers[0], dict(zip(parameters, values, strict=True)), (nodes, edges)).edges

    torch.compiler.reset()
    fleet = torch.vmap(run)
    results = []
    for function in (fleet, torch.compile(fleet, fullgraph=True, backend="aot_eager")):
        with kernels.use_kernels(True):
            out = function(*leaves)
            results.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
    for eager, compiled in zip(*results, strict=True):
        torch.testing.assert_close(compiled, eager)


@pytest.mark.parametrize("name", ["attention.edge_qkv", "edge_update.message_in", "edge_update.norm"])
def test_a_module_with_a_hook_is_called_where_kernels_are_asked_for(name: str):
    torch.manual_seed(0)
    layer = RelationalTransformerLayer(node_size=8, edge_size=16, num_heads=2, head_size=4, node_hidden_size=8)
    layer = layer.to(DEVICE)
    nodes, edges = torch.randn(1, 3, 8, device=DEVICE), torch.randn(1, 3, 3, 16, device=DEVICE)
    expected, calls = layer(nodes, edges), []
    layer.get_submodule(name).register_forward_hook(lambda *_: calls.append(name))
    with kernels.use_kernels(True):
        output = layer(nodes, edges)
    assert len(calls) == 1
    torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-4)
