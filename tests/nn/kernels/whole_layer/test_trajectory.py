"""Layers over a trajectory, in the emulator: the same as layer by layer, step by step."""

import gc
import weakref

import pytest
import torch

from relational_transformer.nn.kernels.whole_layer.kept import kept_bytes
from relational_transformer.nn.kernels.whole_layer.operator import relational_layer
from relational_transformer.nn.kernels.whole_layer.packing import orders_on, pack
from relational_transformer.nn.kernels.whole_layer.parameters import (
    Learnt,
    as_learnt,
    gradients_by_name,
    has_edge_update,
)
from relational_transformer.nn.kernels.whole_layer.trajectory import Trajectory

from .emulation import COMPILER
from .test_inference import make_parameters
from .test_whole_layer import make_inputs

pytestmark = pytest.mark.skipif(COMPILER is None, reason="the emulator needs g++ on x86-64")

SEEDS, GRAPHS, NODES, STEPS, LAYERS = 2, 2, 5, 3, 3


@pytest.fixture(params=[True, False], ids=["edges", "no_edges"])
def parameters(request) -> list[dict[str, torch.Tensor]]:
    """Of each layer, with an edge update or without, [S, *shape] by name."""
    layers = make_parameters(SEEDS, LAYERS, update_edges=request.param)
    return [{name: value.requires_grad_() for name, value in layer.items()} for layer in layers]


def make_trajectory(parameters) -> Trajectory:
    update_edges = has_edge_update(parameters[0])
    orders = orders_on(torch.device("cpu"), update_edges)
    packed = [pack({name: value.detach() for name, value in layer.items()}, orders) for layer in parameters]
    learnt = [as_learnt(layer) for layer in parameters]
    return Trajectory(learnt, packed, STEPS, GRAPHS, NODES, update_edges=update_edges)


def step_by_step(parameters, nodes, edges):
    for _ in range(STEPS):
        for layer in parameters:
            seeds = [
                relational_layer(nodes[seed], edges[seed], {name: value[seed] for name, value in layer.items()})
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
    # Outputs, and gradients of nodes and edges: the same kernels. But those of edges that no layer updates are added up
    # by autograd in one run and by the kernels in the other.
    num_exact = 4 if has_edge_update(parameters[0]) else 3
    for number, (one, other) in enumerate(zip(*found, strict=True)):
        if number < num_exact:
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
    counted = kept_bytes(LAYERS, STEPS, SEEDS, GRAPHS, NODES, update_edges=has_edge_update(parameters[0]))
    assert counted == sum(tensor.nbytes for tensor in kept)


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
    made, given = zip(*((one, other) for one, other in zip(learnt, gradients, strict=True) if one.numel()), strict=True)
    expected = torch.autograd.grad(made, leaves, given)
    found = gradients_by_name(gradients)
    assert list(found) == list(parameters[0])
    for (name, gradient), right in zip(found.items(), expected, strict=True):
        assert torch.equal(gradient, right), name
