"""The layers of a fleet among all parameters of a network, in the emulator."""

import pytest
import torch

from relational_transformer import RelationalTransformerLayer
from relational_transformer.nn import kernels
from relational_transformer.nn.kernels.whole_layer.parameters import has_edge_update

from .emulation import COMPILER
from .test_inference import make_parameters
from .test_whole_layer import make_inputs, make_layer, with_and_without_edge_update

pytestmark = pytest.mark.skipif(COMPILER is None, reason="the emulator needs g++ on x86-64")

CPU = torch.device("cpu")
SEEDS, GRAPHS, NODES, LAYERS = 2, 2, 5, 2


def make_fleet(update_edges: bool) -> tuple[kernels.KernelLayers, dict[str, torch.Tensor]]:
    """Layers, and the parameters of a network that has them in it."""
    layers = [make_layer(n, update_edges).bfloat16() for n in range(LAYERS)]
    parameters = {"decoder.weight": torch.zeros(SEEDS, 3)}
    for number, layer in enumerate(make_parameters(SEEDS, LAYERS, update_edges)):
        parameters |= {f"layers.{number}.{name}": value.requires_grad_() for name, value in layer.items()}
    return kernels.KernelLayers(layers, NODES, CPU, prefix="layers."), parameters


@with_and_without_edge_update
def test_a_trajectory_and_inference_give_what_the_layers_give_seed_by_seed(update_edges: bool):
    fleet, parameters = make_fleet(update_edges)
    expected = given = make_inputs(SEEDS, GRAPHS, nodes=NODES)
    for layer in fleet.parameters(parameters):
        assert has_edge_update(layer) == update_edges
        of_seeds = [
            kernels.relational_layer(
                *(tensor[seed] for tensor in expected), {name: p[seed] for name, p in layer.items()}
            )
            for seed in range(SEEDS)
        ]
        expected = [torch.stack(tensors) for tensors in zip(*of_seeds, strict=True)]
    trajectory = fleet.trajectory(fleet.lay_out(parameters, fleet.orders), 1, GRAPHS)
    inference = fleet.inference(fleet.lay_out_forward(parameters, fleet.orders))
    for found in (trajectory(0, *given), inference(*given)):
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_every_parameter_of_a_layer_gets_a_gradient_and_no_other():
    fleet, parameters = make_fleet(update_edges=True)
    trajectory = fleet.trajectory(fleet.lay_out(parameters, fleet.orders), 1, GRAPHS)
    nodes, edges = trajectory(0, *make_inputs(SEEDS, GRAPHS, nodes=NODES))
    ((nodes.square().sum() + edges.square().sum()) / 1000).backward()
    for name, parameter in parameters.items():
        assert fleet.has(name) == (parameter.grad is not None and bool(parameter.grad.any())), name


def test_layers_fit_while_kernels_are_on_and_where_their_sizes_are_known():
    fleet, _ = make_fleet(update_edges=True)
    assert fleet.fit
    with kernels.use_kernels(False):
        assert not fleet.fit
    assert not kernels.KernelLayers(fleet.layers, 21, CPU, prefix="layers.").fit
    sizes = {"node_size": 8, "edge_size": 8, "num_heads": 2, "head_size": 4, "node_hidden_size": 8}
    assert not kernels.KernelLayers([RelationalTransformerLayer(**sizes)], NODES, CPU, prefix="layers.").fit
