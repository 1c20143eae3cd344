"""Layers without edges over a trajectory, in the emulator: exactness, order of the warps, fleets, what they keep."""

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from relational_transformer.nn.kernels.whole_layer import launching
from relational_transformer.nn.kernels.whole_layer.node_layers import NodeInference, NodeTrajectory
from relational_transformer.nn.kernels.whole_layer.node_layers.kept import kept_bytes
from relational_transformer.nn.kernels.whole_layer.node_layers.parameters import (
    NAMES,
    as_learnt,
    orders_on,
    pack,
    pack_forward,
)
from relational_transformer.processors.transformer import TransformerLayer

from ..emulation import COMPILER, emulated
from ..test_whole_layer import move_parameters

pytestmark = pytest.mark.skipif(COMPILER is None, reason="the emulator needs g++ on x86-64")

CPU = torch.device("cpu")
Parameters = dict[str, Tensor]


def make_layer(seed: int) -> TransformerLayer:
    """A layer whose parameters are bfloat16 numbers, norms and biases away from where they start. Its hidden units are
    always on or always off, in turns: where one may be either, its rounding decides whole gradients."""
    torch.manual_seed(seed)
    layer = TransformerLayer(192, 12, 32)
    move_parameters(layer)
    with torch.no_grad():
        layer.feed_forward_in.bias.fill_(4.0)  # what is added to it is about 0.6 large
        layer.feed_forward_in.bias[1::2] = -4.0
    return layer


def make_parameters(seeds: int, layers: int, dtype: torch.dtype = torch.bfloat16) -> list[Parameters]:
    """Of each layer, [S, *shape] by name."""
    named = [[dict(make_layer(10 * n + s).named_parameters()) for s in range(seeds)] for n in range(layers)]
    return [
        {name: torch.stack([one[name].detach() for one in of_seeds]).to(dtype).requires_grad_() for name in of_seeds[0]}
        for of_seeds in named
    ]


def make_nodes(*batch: int, nodes: int) -> Tensor:
    return torch.randn(*batch, nodes, 192).bfloat16()


def make_trajectory(parameters: list[Parameters], steps: int, graphs: int, nodes: int) -> NodeTrajectory:
    detached = [{name: value.detach() for name, value in layer.items()} for layer in parameters]
    packed = pack(detached, orders_on(parameters[0]["qkv.bias"].device))
    return NodeTrajectory(as_learnt(parameters), packed, steps, graphs, nodes)


def fused(parameters: list[Parameters], nodes: Tensor, steps: int) -> Tensor:
    trajectory = make_trajectory(parameters, steps, *nodes.shape[1:3])
    for step in range(steps):
        nodes = trajectory(step, nodes)
    return nodes


def plain(parameters: list[Parameters], nodes: Tensor, steps: int) -> Tensor:
    layer = TransformerLayer(192, 12, 32)
    of_seeds = list(nodes)
    for _ in range(steps):
        for layer_parameters in parameters:
            for seed, of_seed in enumerate(of_seeds):
                named = {name: value[seed] for name, value in layer_parameters.items()}
                of_seeds[seed] = functional_call(layer, named, (of_seed, None))
    return torch.stack(of_seeds)


def outputs_and_gradients(run: Callable, parameters, nodes: Tensor, gradient: Tensor, steps: int) -> list[Tensor]:
    nodes = nodes.detach().requires_grad_()
    output = run(parameters, nodes, steps)
    leaves = [nodes, *(layer[name] for layer in parameters for name in NAMES)]
    return [output.detach(), *torch.autograd.grad(output, leaves, gradient)]


@pytest.mark.parametrize(
    ("nodes", "seeds", "graphs", "layers", "steps"), [(16, 1, 2, 1, 1), (20, 1, 2, 1, 1), (5, 2, 3, 3, 2)]
)
def test_they_are_as_exact_as_plain_layers_in_bfloat16(nodes: int, seeds: int, graphs: int, layers: int, steps: int):
    given, gradient = make_nodes(seeds, graphs, nodes=nodes), make_nodes(seeds, graphs, nodes=nodes)
    found = {}
    for path, run, dtype in (
        ("fused", fused, torch.bfloat16),
        ("plain", plain, torch.bfloat16),
        ("exact", plain, torch.float64),
    ):
        parameters = make_parameters(seeds, layers, dtype)
        tensors = outputs_and_gradients(run, parameters, given.to(dtype), gradient.to(dtype), steps)
        found[path] = [tensor.double() for tensor in tensors]
    names = ["new nodes", "nodes", *(f"{name} of layer {layer}" for layer in range(layers) for name in NAMES)]
    for name, ours, theirs, exact in zip(names, found["fused"], found["plain"], found["exact"], strict=True):
        assert (ours - exact).norm() <= 2 * (theirs - exact).norm(), name


@pytest.mark.parametrize("nodes", [16, 20])
def test_the_order_of_the_warps_changes_no_bit(nodes: int):
    given, gradient, parameters = make_nodes(1, 1, nodes=nodes), make_nodes(1, 1, nodes=nodes), make_parameters(1, 2)
    found = []
    for order in (0, 1, 2, 3):
        launching.set_emulator(emulated(order))
        found.append(outputs_and_gradients(fused, parameters, given, gradient, 1))
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))


def test_a_fleet_is_its_seeds_one_by_one():
    given, gradient, parameters = make_nodes(2, 2, nodes=5), make_nodes(2, 2, nodes=5), make_parameters(2, 2)
    together = outputs_and_gradients(fused, parameters, given, gradient, 2)
    for seed in range(2):
        own = [{name: value[seed : seed + 1] for name, value in layer.items()} for layer in parameters]
        one = slice(seed, seed + 1)
        alone = outputs_and_gradients(fused, own, given[one], gradient[one], 2)
        assert all(torch.equal(of_all[one], of_one) for of_all, of_one in zip(together[:2], alone, strict=False))
        for of_all, of_one in zip(together[2:], alone[2:], strict=True):  # sums may be cut into other pieces
            torch.testing.assert_close(of_all[one], of_one, rtol=0.01, atol=0.01 * of_one.abs().max().item())


@pytest.mark.parametrize(("nodes", "seeds", "graphs", "layers"), [(16, 1, 2, 1), (20, 1, 1, 2), (5, 2, 3, 3)])
def test_where_nothing_is_kept_the_bits_are_the_same(nodes: int, seeds: int, graphs: int, layers: int):
    parameters, given = make_parameters(seeds, layers), make_nodes(seeds, graphs, nodes=nodes)
    packed = pack_forward(
        [{name: value.detach() for name, value in layer.items()} for layer in parameters], orders_on(CPU)
    )
    assert torch.equal(NodeInference(packed)(given), fused(parameters, given, 1))


def test_a_trajectory_that_was_left_early_has_no_gradient():
    nodes = make_trajectory(make_parameters(1, 1), 3, 1, 5)(0, make_nodes(1, 1, nodes=5))
    with pytest.raises(RuntimeError, match="1 of the trajectory's 3 steps have a gradient"):
        nodes.sum().backward()


def test_what_is_kept_is_counted():
    layers = make_trajectory(make_parameters(2, 3), 4, 3, 5).layers
    assert kept_bytes(3, 4, 2, 3, 5) == sum(tensor.nbytes for tensor in (*layers.rows.values(), layers.sums))


def test_a_trajectory_that_is_not_differentiated_leaves_nothing_behind():
    trajectory = make_trajectory(make_parameters(1, 1), 2, 1, 5)
    watched = weakref.ref(trajectory.layers)
    nodes = make_nodes(1, 1, nodes=5).requires_grad_()
    for step in range(2):
        nodes = trajectory(step, nodes)
    gc.disable()  # what only a collector of cycles would find is there for too long
    try:
        del trajectory, nodes
        assert watched() is None
    finally:
        gc.enable()
