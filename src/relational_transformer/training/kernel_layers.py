"""The layers of a network that are kernels of their own: their parameters among all others, and how they are run."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from relational_transformer.nn.kernels.whole_layer import is_one_kernel, kept, packing
from relational_transformer.nn.kernels.whole_layer.inference import Inference
from relational_transformer.nn.kernels.whole_layer.packing import Orders
from relational_transformer.nn.kernels.whole_layer.parameters import NAMES, Learnt, as_learnt, of_layer
from relational_transformer.nn.kernels.whole_layer.trajectory import Trajectory
from relational_transformer.processors.relational import RelationalProcessor
from relational_transformer.reasoning.network import Network

from .over_seeds import Parameters
from .precision import Precision

PREFIX = "processor.transformer.layers."
"""What names of the layers' parameters begin with."""

ForInference = list[tuple[Tensor, Tensor]]


class LaidOut(NamedTuple):
    """What a trajectory takes of the layers' parameters: the form that gets their gradients, and what kernels read."""

    learnt: list[Learnt]
    packed: list[packing.Packed]


class KernelLayers:
    """The layers of a relational transformer on graphs of so many nodes, each of them a kernel.

    Args:
        layers: of the network; none where they cannot be kernels.
        num_nodes: of a graph, the core node among them.
        device: where they run.
    """

    def __init__(self, layers: Sequence[nn.Module], num_nodes: int, device: torch.device) -> None:
        self.layers, self.num_nodes, self.device = list(layers), num_nodes, device
        self._like_edges = torch.empty(1, num_nodes, num_nodes, 0, dtype=torch.bfloat16, device=device)

    @property
    def fit(self) -> bool:
        """Whether all of them are kernels as things are now; kernels can be turned on and off."""
        nodes, edges = self._like_edges[:, 0], self._like_edges
        return len(self.layers) > 0 and all(is_one_kernel(layer, nodes, edges) for layer in self.layers)

    def has(self, name: str) -> bool:
        """Whether a parameter of the network is one of a layer."""
        # `bool` of a list is something that torch 2.11 does not compile.
        return len(self.layers) > 0 and name.startswith(PREFIX)

    @property
    def update_edges(self) -> bool:
        return all(layer.update_edges for layer in self.layers)

    @property
    def orders(self) -> Orders:
        """In which order kernels read the weights, on the device."""
        return packing.orders_on(self.device, self.update_edges)

    def parameters(self, by_name: Parameters) -> list[dict[str, Tensor]]:
        """Those of each layer, by their names in it."""
        names, numbers = of_layer(NAMES, self.update_edges), range(len(self.layers))
        return [{name: by_name[f"{PREFIX}{number}.{name}"] for name in names} for number in numbers]

    def lay_out(self, by_name: Parameters, orders: Orders) -> LaidOut:
        """The parameters for a trajectory."""
        layers = self.parameters(by_name)
        detached = [{name: value.detach() for name, value in layer.items()} for layer in layers]
        return LaidOut([as_learnt(layer) for layer in layers], [packing.pack(layer, orders) for layer in detached])

    def lay_out_forward(self, by_name: Parameters, orders: Orders) -> ForInference:
        """The parameters for `inference`."""
        return [packing.pack_forward(layer, orders) for layer in self.parameters(by_name)]

    def trajectory(self, laid_out: LaidOut, num_steps: int, graphs: int) -> Trajectory:
        """`nodes, edges = trajectory(step, nodes, edges)`, differentiable, for so many steps and graphs of a seed."""
        return Trajectory(*laid_out, num_steps, graphs, self.num_nodes, update_edges=self.update_edges)

    def inference(self, laid_out: ForInference) -> Inference:
        """`nodes, edges = inference(nodes, edges)`, of which nothing is kept."""
        return Inference(laid_out, update_edges=self.update_edges)

    def kept_bytes(self, num_steps: int, seeds: int, graphs: int) -> int:
        """What a trajectory keeps for its backward pass."""
        sizes = len(self.layers), num_steps, seeds, graphs, self.num_nodes
        return kept.kept_bytes(*sizes, update_edges=self.update_edges)


def kernel_layers(network: Network, num_nodes: int, precision: Precision, device: torch.device) -> KernelLayers:
    """The layers of a network on graphs of so many nodes."""
    processor = network.processor
    if type(processor) is not RelationalProcessor or precision != "bf16":
        return KernelLayers((), num_nodes, device)
    return KernelLayers(tuple(processor.transformer.layers), num_nodes + processor.returns_globals, device)
