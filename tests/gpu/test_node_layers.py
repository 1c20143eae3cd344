"""Layers without edges as one kernel, on a CUDA device."""

import pytest
import torch

from relational_transformer.nn.kernels.whole_layer import are_one_kernel
from relational_transformer.nn.kernels.whole_layer.node_layers import NodeInference
from relational_transformer.nn.kernels.whole_layer.node_layers.parameters import orders_on, pack_forward
from tests.nn.kernels.whole_layer.node_layers.test_trajectory import (
    fused,
    make_layer,
    make_nodes,
    make_parameters,
    outputs_and_gradients,
    plain,
)

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def on_device(parameters: list[dict[str, torch.Tensor]], dtype: torch.dtype) -> list[dict[str, torch.Tensor]]:
    device = torch.device("cuda", torch.cuda.current_device())
    return [
        {name: value.detach().to(device, dtype).requires_grad_() for name, value in layer.items()}
        for layer in parameters
    ]


@pytest.fixture(autouse=True)
def _kernels():
    if not are_one_kernel([make_layer(0)], make_nodes(1, 1, nodes=5).cuda()):
        pytest.skip("layers are no kernels on this device")
    torch.manual_seed(0)


@pytest.mark.parametrize("nodes", [5, 16, 20])
def test_they_are_as_exact_as_plain_layers_and_always_the_same(nodes: int):
    given, gradient = make_nodes(3, 4, nodes=nodes).cuda(), make_nodes(3, 4, nodes=nodes).cuda()
    found = {}
    for path, run, dtype in (
        ("fused", fused, torch.bfloat16),
        ("again", fused, torch.bfloat16),
        ("plain", plain, torch.bfloat16),
        ("exact", plain, torch.float64),
    ):
        parameters = on_device(make_parameters(3, 3), dtype)
        tensors = outputs_and_gradients(run, parameters, given.to(dtype), gradient.to(dtype), 2)
        found[path] = [tensor.double() for tensor in tensors]
    for ours, again, theirs, exact in zip(*found.values(), strict=True):
        assert torch.equal(ours, again)
        rounding = (exact.bfloat16().double() - exact).norm()  # what the best bfloat16 numbers are off by
        assert (ours - exact).norm() <= 2 * (theirs - exact).norm() + rounding


@pytest.mark.parametrize("nodes", [5, 16, 20])
def test_where_nothing_is_kept_the_bits_are_the_same(nodes: int):
    parameters, given = on_device(make_parameters(2, 3), torch.bfloat16), make_nodes(2, 300, nodes=nodes).cuda()
    detached = [{name: value.detach() for name, value in layer.items()} for layer in parameters]
    packed = pack_forward(detached, orders_on(given.device))
    assert torch.equal(NodeInference(packed)(given), fused(parameters, given, 1))
