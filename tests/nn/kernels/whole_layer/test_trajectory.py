"""Layers over a trajectory, in the emulator: the same as layer by layer, step by step."""

import gc
import weakref

import pytest
import torch

from relational_transformer.nn.kernels.whole_layer import whole_layer
from relational_transformer.nn.kernels.whole_layer.parameters import (
    NAMES,
    Learnt,
    as_learnt,
    gradients_by_name,
    orders_on,
    pack,
)
from relational_transformer.nn.kernels.whole_layer.trajectory import Trajectory, kept_bytes

from .emulation import COMPILER
from .test_whole_layer import make_inputs, make_layer

pytestmark = pytest.mark.skipif(COMPILER is None, reason="the emulator needs g++ on x86-64")

SEEDS, GRAPHS, NODES, STEPS, LAYERS = 2, 2, 5, 3, 3


@pytest.fixture
def parameters() -> list[dict[str, torch.Tensor]]:
    """Of each layer, [S, *shape] by name."""
    layers = [[dict(make_layer(10 * n + s).bfloat16().named_parameters()) for s in range(SEEDS)] for n in range(LAYERS)]
    return [
        {name: torch.stack([one[name].detach() for one in seeds]).requires_grad_() for name in NAMES}
        for seeds in layers
    ]


def make_trajectory(parameters) -> Trajectory:
    orders = orders_on(torch.device("cpu"))
    packed = [pack({name: value.detach() for name, value in layer.items()}, orders) for layer in parameters]
    return Trajectory([as_learnt(layer) for layer in parameters], packed, STEPS, GRAPHS, NODES)


def step_by_step(parameters, nodes, edges):
    for _ in range(STEPS):
        for layer in parameters:
            seeds = [
                whole_layer(nodes[seed], edges[seed], {name: value[seed] for name, value in layer.items()})
                for seed in range(SEEDS)
            ]
            nodes, edges = (torch.stack(tensors) for tensors in zip(*seeds, strict=True))
    return nodes, edges


def together(parameters, nodes, edges):
    trajectory = make_trajectory(parameters)
    for step in range(STEPS):
        nodes, edges = trajectory(step, nodes, edges)
    return nodes, edges


def test_it_is_the_layers_one_after_another_at_every_step(parameters):
    inputs = [tensor.requires_grad_() for tensor in make_inputs(SEEDS, GRAPHS, nodes=NODES)]
    given = make_inputs(SEEDS, GRAPHS, nodes=NODES)
    leaves = [*inputs, *(value for layer in parameters for value in layer.values())]
    found = []
    for run in (step_by_step, together):
        outputs = run(parameters, *inputs)
        found.append([*outputs, *torch.autograd.grad(outputs, leaves, given)])
    for number, (one, other) in enumerate(zip(*found, strict=True)):
        if number < 4:  # outputs, and gradients of nodes and edges: the same kernels
            assert torch.equal(one, other)
        else:  # the parameters' are added up in another order
            assert (one - other).float().norm() <= 0.01 * one.float().norm()


def test_a_trajectory_that_was_left_early_has_no_gradient(parameters):
    nodes, edges = make_trajectory(parameters)(0, *make_inputs(SEEDS, GRAPHS, nodes=NODES))
    with pytest.raises(RuntimeError, match="1 of the trajectory's 3 steps have a gradient"):
        (nodes.sum() + edges.sum()).backward()


def test_what_leaves_it_lies_as_one_step_alone_would(parameters):
    """Strides that told of the number of steps would be compiled for one by one."""
    trajectory = make_trajectory(parameters)
    for tensor in trajectory(1, *make_inputs(SEEDS, GRAPHS, nodes=NODES)):
        assert tensor.is_contiguous()


def test_what_is_kept_is_counted(parameters):
    trajectory = make_trajectory(parameters)
    inputs = make_inputs(SEEDS, GRAPHS, nodes=NODES)
    for step in range(STEPS):
        trajectory(step, *inputs)
    layers = trajectory.layers
    kept = [*layers.rows.values(), layers.nodes, layers.edges, layers.last_nodes, layers.sums]
    assert kept_bytes(LAYERS, STEPS, SEEDS, GRAPHS, NODES) == sum(tensor.nbytes for tensor in kept)


def test_a_trajectory_that_is_not_differentiated_leaves_nothing_behind(parameters):
    trajectory = make_trajectory(parameters)
    watched = weakref.ref(trajectory.layers)
    nodes, edges = (tensor.requires_grad_() for tensor in make_inputs(SEEDS, GRAPHS, nodes=NODES))
    for step in range(STEPS):
        nodes, edges = trajectory(step, nodes, edges)
    gc.disable()  # what only a collector of cycles would find is there for too long
    try:
        del trajectory, nodes, edges
        assert watched() is None
    finally:
        gc.enable()


def test_gradients_find_back_to_the_parameters(parameters):
    learnt = as_learnt(parameters[0])
    gradients = Learnt(*(torch.randn_like(tensor) for tensor in learnt))
    leaves = list(parameters[0].values())
    expected = torch.autograd.grad(learnt, leaves, gradients)
    for name, gradient in zip(NAMES, expected, strict=True):
        assert torch.equal(gradients_by_name(gradients)[name], gradient), name
