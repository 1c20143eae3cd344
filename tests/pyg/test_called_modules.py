"""In a convolution, too, a Linear with a hook or an adapter is called."""

import pytest
import torch
from torch import Tensor, nn

from relational_transformer.pyg import RelationalTransformerConv

MODES = ("sparse", "complete")


def make_conv(mode: str) -> RelationalTransformerConv:
    torch.manual_seed(0)
    conv = RelationalTransformerConv(6, 8, heads=2, edge_dim=3, edge_channels=4, mode=mode)
    return conv.double()


def make_inputs() -> tuple[Tensor, Tensor, Tensor]:
    edge_index = torch.tensor([[0, 1, 1, 2, 3, 3], [1, 0, 2, 1, 0, 3]])
    return torch.randn(4, 6).double(), edge_index, torch.randn(6, 3).double()


def leaves(conv: nn.Module) -> dict[str, nn.Module]:
    return {name: module for name, module in conv.named_modules() if isinstance(module, nn.Linear | nn.LayerNorm)}


@pytest.mark.parametrize("mode", MODES)
def test_every_module_is_called_and_values_and_gradients_stay(mode: str):
    conv, inputs = make_conv(mode), make_inputs()

    def run() -> list[Tensor]:
        nodes, edges = conv(*inputs)
        loss = (nodes * nodes.detach().cos()).sum() + (edges * edges.detach().cos()).sum()
        return [nodes, edges, *torch.autograd.grad(loss, list(conv.parameters()))]

    expected, called = run(), set()
    for name, module in leaves(conv).items():
        module.register_forward_hook(lambda *_, name=name: called.add(name))
    torch.testing.assert_close(run(), expected, rtol=1e-10, atol=1e-10)
    assert called == leaves(conv).keys()


def test_autocast_adds_up_what_many_edges_bring_in_the_precision_of_the_weights():
    """300 edges lead to node 0. In bfloat16 a sum of 300 numbers like each other would stop growing."""
    conv = make_conv("sparse").float()
    x, edge_attr = torch.randn(301, 6), torch.randn(300, 3)
    edge_index = torch.stack([torch.arange(1, 301), torch.zeros(300, dtype=torch.long)])
    seen = []
    conv.layer.node_output.register_forward_pre_hook(lambda module, arguments: seen.append(arguments[0][0]))
    conv(x, edge_index, edge_attr)
    with torch.autocast("cpu", torch.bfloat16):
        conv(x, edge_index, edge_attr)
    exact, rough = seen
    assert rough.dtype == torch.float32
    assert (rough - exact).norm() / exact.norm() < 0.02


@pytest.mark.parametrize("mode", MODES)
def test_every_adapter_gets_a_gradient_and_can_be_merged(mode: str):
    peft = pytest.importorskip("peft")
    conv, inputs = make_conv(mode), make_inputs()
    before = conv(*inputs)
    names = [name for name, module in conv.named_modules() if isinstance(module, nn.Linear)]
    adapted = peft.get_peft_model(conv, peft.LoraConfig(r=2, target_modules=names, init_lora_weights=False))
    nodes, edges = adapted(*inputs)
    assert not torch.allclose(nodes, before[0], atol=1e-2)
    assert not torch.allclose(edges, before[1], atol=1e-2)
    (nodes * torch.randn_like(nodes)).sum().add((edges * torch.randn_like(edges)).sum()).backward()
    trained = {name: parameter for name, parameter in adapted.named_parameters() if parameter.requires_grad}
    assert len(trained) == 2 * len(names)
    assert not [name for name, parameter in trained.items() if parameter.grad is None or not parameter.grad.any()]
    torch.testing.assert_close(adapted.merge_and_unload()(*inputs), (nodes, edges), rtol=0, atol=1e-5)
