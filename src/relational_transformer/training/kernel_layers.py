"""The layers of a network that are kernels of their own: their parameters among all others, and how they are run."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from relational_transformer.nn.kernels.whole_layer import are_one_kernel, is_one_kernel, kept, node_layers, packing
from relational_transformer.nn.kernels.whole_layer.inference import Inference
from relational_transformer.nn.kernels.whole_layer.node_layers import kept as node_kept
from relational_transformer.nn.kernels.whole_layer.node_layers import parameters as node_parameters
from relational_transformer.nn.kernels.whole_layer.packing import Orders
from relational_transformer.nn.kernels.whole_layer.parameters import NAMES, as_learnt, of_layer
from relational_transformer.nn.kernels.whole_layer.trajectory import Trajectory
from relational_transformer.processors.relational import RelationalProcessor
from relational_transformer.processors.transformer import Transformer
from relational_transformer.reasoning.network import Network

from .over_seeds import Parameters
from .precision import Precision

Vectors = tuple[Tensor, Tensor | None]
"""Nodes [S, G, N, D] and edges [S, G, N, N, D]; None where layers read none."""


class LaidOut(NamedTuple):
    """What a trajectory takes of the layers' parameters: the form that gets their gradients, and what kernels read."""

    learnt: Any
    packed: Any


class KernelLayers:
    """The layers of a network on graphs of so many nodes. A kind of layers says how their parameters are laid out and
    how they are run; layers of no known kind are none.

    Args:
        layers: of the network, none where they cannot be kernels.
        num_nodes: of a graph, the core node among them.
        device: where they run.
    """

    prefix: str
    """What names of their parameters begin with."""

    def __init__(self, layers: Sequence[nn.Module], num_nodes: int, device: torch.device) -> None:
        self.layers, self.num_nodes, self.device = list(layers), num_nodes, device
        self._like_edges = torch.empty(1, num_nodes, num_nodes, 0, dtype=torch.bfloat16, device=device)

    @property
    def fit(self) -> bool:
        """Whether all of them are kernels as things are now; kernels can be turned on and off."""
        return len(self.layers) > 0 and self._fit(self._like_edges[:, 0], self._like_edges)

    def has(self, name: str) -> bool:
        """Whether a parameter of the network is one of a layer."""
        # `bool` of a list is something that torch 2.11 does not compile.
        return len(self.layers) > 0 and name.startswith(self.prefix)

    def parameters(self, by_name: Parameters) -> list[dict[str, Tensor]]:
        """Those of each layer, by their names in it."""
        numbers = range(len(self.layers))
        return [{name: by_name[f"{self.prefix}{number}.{name}"] for name in self._names} for number in numbers]

    @property
    def orders(self) -> Orders:
        """In which order kernels read the weights, on the device."""
        raise NotImplementedError

    def lay_out(self, by_name: Parameters, orders: Orders) -> LaidOut:
        """The parameters for a trajectory."""
        raise NotImplementedError

    def lay_out_forward(self, by_name: Parameters, orders: Orders) -> Any:
        """The parameters for `inference`."""
        raise NotImplementedError

    def trajectory(self, laid_out: LaidOut, num_steps: int, graphs: int) -> Callable[..., Vectors]:
        """`nodes, edges = trajectory(step, nodes, edges)`, differentiable, for so many steps and graphs of a seed."""
        raise NotImplementedError

    def inference(self, laid_out: Any) -> Callable[..., Vectors]:
        """`nodes, edges = inference(nodes, edges)`, of which nothing is kept."""
        raise NotImplementedError

    def kept_bytes(self, num_steps: int, seeds: int, graphs: int) -> int:
        """What a trajectory keeps for its backward pass."""
        raise NotImplementedError

    @property
    def _names(self) -> tuple[str, ...]:
        raise NotImplementedError

    def _fit(self, nodes: Tensor, edges: Tensor) -> bool:
        raise NotImplementedError


class RelationalLayers(KernelLayers):
    """Layers of a relational transformer: every one is a kernel."""

    prefix = "processor.transformer.layers."

    @property
    def update_edges(self) -> bool:
        return all(layer.update_edges for layer in self.layers)

    @property
    def orders(self) -> Orders:
        return packing.orders_on(self.device, self.update_edges)

    def lay_out(self, by_name: Parameters, orders: Orders) -> LaidOut:
        layers = self.parameters(by_name)
        packed = [packing.pack(layer, orders) for layer in _detached(layers)]
        return LaidOut([as_learnt(layer) for layer in layers], packed)

    def lay_out_forward(self, by_name: Parameters, orders: Orders) -> list[tuple[Tensor, Tensor]]:
        return [packing.pack_forward(layer, orders) for layer in self.parameters(by_name)]

    def trajectory(self, laid_out: LaidOut, num_steps: int, graphs: int) -> Trajectory:
        return Trajectory(*laid_out, num_steps, graphs, self.num_nodes, update_edges=self.update_edges)

    def inference(self, laid_out: list[tuple[Tensor, Tensor]]) -> Inference:
        return Inference(laid_out, update_edges=self.update_edges)

    def kept_bytes(self, num_steps: int, seeds: int, graphs: int) -> int:
        sizes = len(self.layers), num_steps, seeds, graphs, self.num_nodes
        return kept.kept_bytes(*sizes, update_edges=self.update_edges)

    @property
    def _names(self) -> tuple[str, ...]:
        return of_layer(NAMES, self.update_edges)

    def _fit(self, nodes: Tensor, edges: Tensor) -> bool:
        return all(is_one_kernel(layer, nodes, edges) for layer in self.layers)


class NodeLayers(KernelLayers):
    """Layers of a transformer without edges: all of them together are a kernel."""

    prefix = "processor.layers."

    @property
    def orders(self) -> Orders:
        return node_parameters.orders_on(self.device)

    def lay_out(self, by_name: Parameters, orders: Orders) -> LaidOut:
        layers = self.parameters(by_name)
        return LaidOut(node_parameters.as_learnt(layers), node_parameters.pack(_detached(layers), orders))

    def lay_out_forward(self, by_name: Parameters, orders: Orders) -> tuple[Tensor, Tensor]:
        return node_parameters.pack_forward(self.parameters(by_name), orders)

    def trajectory(self, laid_out: LaidOut, num_steps: int, graphs: int) -> Callable[..., Vectors]:
        layers = node_layers.NodeTrajectory(*laid_out, num_steps, graphs, self.num_nodes)
        return lambda step, nodes, edges: (layers(step, nodes), edges)

    def inference(self, laid_out: tuple[Tensor, Tensor]) -> Callable[..., Vectors]:
        layers = node_layers.NodeInference(laid_out)
        return lambda nodes, edges: (layers(nodes), edges)

    def kept_bytes(self, num_steps: int, seeds: int, graphs: int) -> int:
        return node_kept.kept_bytes(len(self.layers), num_steps, seeds, graphs, self.num_nodes)

    @property
    def _names(self) -> tuple[str, ...]:
        return node_parameters.NAMES

    def _fit(self, nodes: Tensor, edges: Tensor) -> bool:
        return are_one_kernel(self.layers, nodes)


def kernel_layers(network: Network, num_nodes: int, precision: Precision, device: torch.device) -> KernelLayers:
    """The layers of a network on graphs of so many nodes."""
    processor, in_kernels = network.processor, precision == "bf16"
    if type(processor) is RelationalProcessor:
        layers = processor.transformer.layers if in_kernels else ()
        return RelationalLayers(tuple(layers), num_nodes + processor.returns_globals, device)
    if type(processor) is Transformer:
        return NodeLayers(tuple(processor.layers) if in_kernels else (), num_nodes, device)
    return KernelLayers((), num_nodes, device)


def _detached(layers: list[dict[str, Tensor]]) -> list[dict[str, Tensor]]:
    return [{name: value.detach() for name, value in layer.items()} for layer in layers]
