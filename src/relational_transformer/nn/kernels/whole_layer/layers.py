"""The layers of a model as kernels over the steps of a trajectory, for many seeds: all that a trainer sees of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from . import kept, node_layers, packing
from .fitting import are_one_kernel, is_one_kernel
from .inference import Inference
from .node_layers import kept as node_kept
from .node_layers import parameters as node_parameters
from .packing import Orders
from .parameters import NAMES, as_learnt, of_layer
from .trajectory import Trajectory

Parameters = Mapping[str, Tensor]
"""Of one layer, [S, *shape] by their names in it."""
Vectors = tuple[Tensor, Tensor | None]
"""Nodes [S, G, N, D] and edges [S, G, N, N, D]; None where layers read none."""


class LaidOut(NamedTuple):
    """What a trajectory takes of the layers' parameters: the form that gets their gradients, and what kernels read."""

    learnt: Any
    packed: Any


class KernelLayers:
    """Layers on graphs of `num_nodes` nodes. A subclass says how they are laid out and run; its arguments are theirs.

    Args:
        layers: one after another, with the parameters of any seed.
        num_nodes: of a graph, the core node among them.
        device: where they run.
    """

    names: tuple[str, ...]
    """Of a layer's parameters."""

    def __init__(self, layers: Sequence[nn.Module], num_nodes: int, device: torch.device) -> None:
        self.layers, self.num_nodes, self.device = list(layers), num_nodes, device
        self._nodes = torch.empty(1, num_nodes, 0, dtype=torch.bfloat16, device=device)

    @property
    def fit(self) -> bool:
        """Whether kernels may stand in for all of them now: they can be turned off, and hooks added."""
        raise NotImplementedError

    @property
    def orders(self) -> Orders:
        """In which order kernels read the weights, on the device."""
        raise NotImplementedError

    def lay_out(self, parameters: Sequence[Parameters], orders: Orders) -> LaidOut:
        """The parameters of all layers for a trajectory."""
        raise NotImplementedError

    def lay_out_forward(self, parameters: Sequence[Parameters], orders: Orders) -> Any:
        """The parameters of all layers for `inference`."""
        raise NotImplementedError

    def trajectory(self, laid_out: LaidOut, num_steps: int, graphs: int) -> Callable[..., Vectors]:
        """`nodes, edges = trajectory(step, nodes, edges)`, differentiable, for that many steps and graphs of a seed."""
        raise NotImplementedError

    def inference(self, laid_out: Any) -> Callable[..., Vectors]:
        """`nodes, edges = inference(nodes, edges)`, of which nothing is kept."""
        raise NotImplementedError

    def kept_bytes(self, num_steps: int, seeds: int, graphs: int) -> int:
        """What a trajectory keeps for its backward pass."""
        raise NotImplementedError


class RelationalLayers(KernelLayers):
    """`RelationalTransformerLayer`s: every one is a kernel."""

    def __init__(self, layers: Sequence[nn.Module], num_nodes: int, device: torch.device) -> None:
        super().__init__(layers, num_nodes, device)
        self.update_edges = all(layer.update_edges for layer in self.layers)
        self.names = of_layer(NAMES, self.update_edges)
        self._edges = self._nodes.new_empty(1, num_nodes, num_nodes, 0)

    @property
    def fit(self) -> bool:
        return all(is_one_kernel(layer, self._nodes, self._edges) for layer in self.layers)

    @property
    def orders(self) -> Orders:
        return packing.orders_on(self.device, self.update_edges)

    def lay_out(self, parameters: Sequence[Parameters], orders: Orders) -> LaidOut:
        packed = [packing.pack(layer, orders) for layer in _detached(parameters)]
        return LaidOut([as_learnt(layer) for layer in parameters], packed)

    def lay_out_forward(self, parameters: Sequence[Parameters], orders: Orders) -> list[tuple[Tensor, Tensor]]:
        return [packing.pack_forward(layer, orders) for layer in parameters]

    def trajectory(self, laid_out: LaidOut, num_steps: int, graphs: int) -> Trajectory:
        return Trajectory(*laid_out, num_steps, graphs, self.num_nodes, update_edges=self.update_edges)

    def inference(self, laid_out: list[tuple[Tensor, Tensor]]) -> Inference:
        return Inference(laid_out, update_edges=self.update_edges)

    def kept_bytes(self, num_steps: int, seeds: int, graphs: int) -> int:
        sizes = len(self.layers), num_steps, seeds, graphs, self.num_nodes
        return kept.kept_bytes(*sizes, update_edges=self.update_edges)


class NodeLayers(KernelLayers):
    """`TransformerLayer`s, which have no edges: all of them together are a kernel."""

    names = node_parameters.NAMES

    @property
    def fit(self) -> bool:
        return are_one_kernel(self.layers, self._nodes)

    @property
    def orders(self) -> Orders:
        return node_parameters.orders_on(self.device)

    def lay_out(self, parameters: Sequence[Parameters], orders: Orders) -> LaidOut:
        packed = node_parameters.pack(_detached(parameters), orders)
        return LaidOut(node_parameters.as_learnt(parameters), packed)

    def lay_out_forward(self, parameters: Sequence[Parameters], orders: Orders) -> tuple[Tensor, Tensor]:
        return node_parameters.pack_forward(parameters, orders)

    def trajectory(self, laid_out: LaidOut, num_steps: int, graphs: int) -> Callable[..., Vectors]:
        layers = node_layers.NodeTrajectory(*laid_out, num_steps, graphs, self.num_nodes)
        return lambda step, nodes, edges: (layers(step, nodes), edges)

    def inference(self, laid_out: tuple[Tensor, Tensor]) -> Callable[..., Vectors]:
        layers = node_layers.NodeInference(laid_out)
        return lambda nodes, edges: (layers(nodes), edges)

    def kept_bytes(self, num_steps: int, seeds: int, graphs: int) -> int:
        return node_kept.kept_bytes(len(self.layers), num_steps, seeds, graphs, self.num_nodes)


def _detached(parameters: Sequence[Parameters]) -> list[dict[str, Tensor]]:
    return [{name: value.detach() for name, value in layer.items()} for layer in parameters]
