"""The layers of a model, in the emulator: what a trainer asks of them gives what the layers themselves give."""

import pytest
import torch
from torch import Tensor, nn

from relational_transformer.nn import kernels
from relational_transformer.nn.kernels import KernelLayers, NodeLayers, RelationalLayers
from relational_transformer.processors.transformer import TransformerLayer

from .emulation import COMPILER
from .test_whole_layer import make_inputs, make_layer, move_parameters

pytestmark = pytest.mark.skipif(COMPILER is None, reason="the emulator needs g++ on x86-64")

CPU = torch.device("cpu")
NODES, GRAPHS, STEPS = 5, 2, 2


def make_node_layer(seed: int) -> TransformerLayer:
    torch.manual_seed(seed)
    layer = TransformerLayer(192, 12, 32)
    move_parameters(layer)
    return layer


class Doubled(TransformerLayer):
    def forward(self, nodes: Tensor, node_mask: Tensor | None) -> Tensor:
        return 2 * super().forward(nodes, node_mask)


KINDS = {
    "edges": lambda: RelationalLayers([make_layer(seed).bfloat16() for seed in (1, 2)], NODES, CPU),
    "no_edge_update": lambda: RelationalLayers([make_layer(seed, False).bfloat16() for seed in (1, 2)], NODES, CPU),
    "nodes": lambda: NodeLayers([make_node_layer(seed).bfloat16() for seed in (1, 2)], NODES, CPU),
}


@pytest.fixture(params=KINDS)
def layers(request) -> KernelLayers:
    return KINDS[request.param]()


def parameters_of(layers: KernelLayers) -> list[dict[str, Tensor]]:
    """Of each layer, for one seed: [1, *shape] by name."""
    named = [dict(layer.named_parameters()) for layer in layers.layers]
    return [{name: layer[name].detach().unsqueeze(0).requires_grad_() for name in layers.names} for layer in named]


def one_by_one(layers: KernelLayers, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """The layers called at every step, without kernels."""
    with kernels.use_kernels(False):
        for _ in range(STEPS):
            for layer in layers.layers:
                if isinstance(layers, NodeLayers):
                    nodes = layer(nodes, None)
                else:
                    nodes, edges = layer(nodes, edges)
    return nodes, edges


def test_names_are_those_of_the_parameters(layers: KernelLayers):
    for layer in layers.layers:
        assert sorted(layers.names) == sorted(name for name, _ in layer.named_parameters())


def test_a_trajectory_and_inference_are_the_layers_called_one_by_one(layers: KernelLayers):
    nodes, edges = make_inputs(1, GRAPHS, nodes=NODES)
    expected = one_by_one(layers, nodes, edges)
    parameters, orders = parameters_of(layers), layers.orders
    trajectory = layers.trajectory(layers.lay_out(parameters, orders), STEPS, GRAPHS)
    inference = layers.inference(layers.lay_out_forward(parameters, orders))
    found = kept = (nodes.requires_grad_(), edges.requires_grad_())
    for step in range(STEPS):
        kept = trajectory(step, *kept)
        found = inference(*found)
    for differentiable, one, other in zip(kept, found, expected, strict=True):
        assert torch.equal(differentiable, one)
        assert (one - other).norm() / other.norm() < 0.02
    leaves = [value for layer in parameters for value in layer.values()]
    loss = kept[0].float().square().sum() + kept[1].float().square().sum()
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(loss, leaves))


def test_what_is_kept_grows_with_steps_seeds_and_graphs(layers: KernelLayers):
    assert layers.kept_bytes(3, 2, 4) == 2 * layers.kept_bytes(3, 1, 4) == 4 * layers.kept_bytes(3, 1, 2)
    assert layers.kept_bytes(4, 1, 1) > layers.kept_bytes(3, 1, 1) > 0


def test_layers_fit_as_things_are_now(layers: KernelLayers):
    assert layers.fit
    with kernels.use_kernels(False):
        assert not layers.fit
    linear = next(module for module in layers.layers[1].modules() if isinstance(module, nn.Linear))
    handle = linear.register_forward_hook(lambda module, arguments, output: None)
    assert not layers.fit
    handle.remove()
    assert layers.fit
    assert not type(layers)(layers.layers, 21, CPU).fit


def test_layers_with_a_forward_of_their_own_do_not_fit():
    assert not NodeLayers([make_node_layer(0).bfloat16(), Doubled(192, 12, 32).bfloat16()], NODES, CPU).fit
