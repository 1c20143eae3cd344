"""The layers of a fleet as kernels: their parameters among all others of a network, and how they are run."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .fitting import is_one_kernel
from .inference import Inference
from .kept import kept_bytes
from .launching import Kernel, compile_ahead
from .packing import Orders, Packed, orders_on, pack, pack_forward
from .parameters import NAMES, Learnt, as_learnt, of_layer
from .trajectory import Trajectory

ForInference = list[tuple[Tensor, Tensor]]
"""What `KernelLayers.inference` takes: for each layer its weights as the forward kernel reads them."""


class LaidOut(NamedTuple):
    """What a trajectory takes of the layers' parameters: the form that gets their gradients, and what kernels read."""

    learnt: list[Learnt]
    packed: list[Packed]


class KernelLayers:
    """Layers (`RelationalTransformerLayer`) of a fleet on graphs of `num_nodes` nodes, each of them one kernel.

    Args:
        layers: one after another, at least one.
        num_nodes: of a graph.
        device: where they run.
        prefix: what names of their parameters begin with in a network, before a layer's number and a dot.
    """

    def __init__(self, layers: Sequence[Any], num_nodes: int, device: torch.device, *, prefix: str) -> None:
        self.layers, self.num_nodes, self.device, self.prefix = list(layers), num_nodes, device, prefix
        self._like_edges = torch.empty(1, num_nodes, num_nodes, 0, dtype=torch.bfloat16, device=device)

    @property
    def fit(self) -> bool:
        """Whether all layers run as kernels now; `use_kernels` may switch them off."""
        nodes, edges = self._like_edges[:, 0], self._like_edges
        return all(is_one_kernel(layer, nodes, edges) for layer in self.layers)

    def compile_ahead(self, *names: str) -> None:
        """Begin to compile the kernels of these names, such as `layer_forward`, if the layers run as kernels."""
        if self.fit:
            compile_ahead([Kernel(name, self.num_nodes, self.update_edges) for name in names], self.device)

    def has(self, name: str) -> bool:
        """Whether a parameter of the network belongs to a layer."""
        return name.startswith(self.prefix)

    @property
    def update_edges(self) -> bool:
        return all(layer.update_edges for layer in self.layers)

    @property
    def orders(self) -> Orders:
        """In which order kernels read the weights, on the device."""
        return orders_on(self.device, self.update_edges)

    def parameters(self, by_name: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
        """The parameters of each layer [S, *shape] by their names in it, from those of a network."""
        names, numbers = of_layer(NAMES, self.update_edges), range(len(self.layers))
        return [{name: by_name[f"{self.prefix}{number}.{name}"] for name in names} for number in numbers]

    def lay_out(self, by_name: Mapping[str, Tensor], orders: Orders) -> LaidOut:
        """A network's parameters for `trajectory`."""
        layers = self.parameters(by_name)
        detached = [{name: value.detach() for name, value in layer.items()} for layer in layers]
        return LaidOut([as_learnt(layer) for layer in layers], [pack(layer, orders) for layer in detached])

    def lay_out_forward(self, by_name: Mapping[str, Tensor], orders: Orders) -> ForInference:
        """A network's parameters for `inference`."""
        return [pack_forward(layer, orders) for layer in self.parameters(by_name)]

    def trajectory(self, laid_out: LaidOut, num_steps: int, graphs: int) -> Trajectory:
        """A differentiable `nodes, edges = trajectory(step, nodes, edges)` for `num_steps` steps and `graphs` graphs of
        a seed."""
        return Trajectory(*laid_out, num_steps, graphs, self.num_nodes, update_edges=self.update_edges)

    def inference(self, laid_out: ForInference) -> Inference:
        """`nodes, edges = inference(nodes, edges)`, which keeps nothing for a backward pass."""
        return Inference(laid_out, update_edges=self.update_edges)

    def kept_bytes(self, num_steps: int, seeds: int, graphs: int) -> int:
        """What a trajectory keeps for its backward pass."""
        sizes = len(self.layers), num_steps, seeds, graphs, self.num_nodes
        return kept_bytes(*sizes, update_edges=self.update_edges)
