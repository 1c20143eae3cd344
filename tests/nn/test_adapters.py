"""Adapters of peft reach every Linear, and torchao's quantised weights are read in every one."""

import copy

import pytest
import torch
from torch import nn

from relational_transformer import RelationalTransformer

peft = pytest.importorskip("peft")


def make_model(mode: str, **changes) -> RelationalTransformer:
    sizes = {"node_size": 16, "edge_size": 16, "num_heads": 2, "head_size": 8, "node_hidden_size": 16, **changes}
    return RelationalTransformer(4, 3, 2, **sizes, num_layers=2, global_mode=mode)


def make_inputs() -> tuple[torch.Tensor, ...]:
    return torch.randn(2, 5, 4), torch.randn(2, 5, 5, 3), torch.randn(2, 2)


def linears(model: nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]


def with_adapters(model: nn.Module, *, start_at_zero: bool) -> nn.Module:
    settings = peft.LoraConfig(r=2, target_modules=linears(model), init_lora_weights=start_at_zero)
    return peft.get_peft_model(model, settings)


@pytest.mark.parametrize("mode", ["cat", "core", "att"])
def test_every_adapter_gets_a_gradient(mode: str):
    model, inputs = make_model(mode), make_inputs()
    names, before = linears(model), model(*inputs)
    adapted = with_adapters(model, start_at_zero=False)
    nodes, edges, _ = adapted(*inputs)
    assert not torch.allclose(nodes, before.nodes, atol=1e-2)
    assert not torch.allclose(edges, before.edges, atol=1e-2)
    (nodes * torch.randn_like(nodes)).sum().add((edges * torch.randn_like(edges)).sum()).backward()
    trained = {name: parameter for name, parameter in adapted.named_parameters() if parameter.requires_grad}
    assert len(trained) == 2 * len(names)
    without = [name for name, parameter in trained.items() if parameter.grad is None or not parameter.grad.any()]
    assert not without


def test_adapters_that_start_at_zero_change_nothing():
    model, inputs = make_model("att").double(), [tensor.double() for tensor in make_inputs()]
    before = model(*inputs)
    after = with_adapters(model, start_at_zero=True)(*inputs)
    torch.testing.assert_close(after[:2], before[:2], rtol=0, atol=1e-12)


@pytest.mark.parametrize("mode", ["cat", "core", "att"])
def test_merged_adapters_give_the_same_outputs_in_plain_modules(mode: str):
    model, inputs = make_model(mode).double(), [tensor.double() for tensor in make_inputs()]
    kinds = {name: type(module) for name, module in model.named_modules()}
    adapted = with_adapters(model, start_at_zero=False)
    expected = adapted(*inputs)
    merged = adapted.merge_and_unload()
    assert {name: type(module) for name, module in merged.named_modules()} == kinds
    torch.testing.assert_close(merged(*inputs)[:2], expected[:2], rtol=0, atol=1e-5)  # peft adds up in float32


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["cat", "core", "att"])
def test_int8_weights_change_the_outputs_by_little(mode: str):
    quantization = pytest.importorskip("torchao.quantization")
    model, inputs = make_model(mode).eval(), make_inputs()
    quantised = copy.deepcopy(model)
    quantization.quantize_(quantised, quantization.Int8WeightOnlyConfig())
    for name in linears(quantised):
        assert hasattr(quantised.get_submodule(name).weight, "__tensor_flatten__"), name
    with torch.no_grad():
        for got, exact in zip(quantised(*inputs)[:2], model(*inputs)[:2], strict=True):
            assert 0 < (got - exact).norm() / exact.norm() < 0.05
