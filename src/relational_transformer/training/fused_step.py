"""Steps of a network whose layers are kernels of their own: the layers, and compiled pieces between them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from relational_transformer.fleet.fleet import Fleet
from relational_transformer.fleet.over_seeds import Parameters
from relational_transformer.fleet.pieces import Pieces
from relational_transformer.fleet.precision import Precision
from relational_transformer.nn.kernels.whole_layer import is_one_kernel, kept, packing
from relational_transformer.nn.kernels.whole_layer.inference import Inference
from relational_transformer.nn.kernels.whole_layer.packing import Orders
from relational_transformer.nn.kernels.whole_layer.parameters import NAMES, Learnt, as_learnt, of_layer
from relational_transformer.nn.kernels.whole_layer.trajectory import Trajectory
from relational_transformer.processors.relational import RelationalProcessor
from relational_transformer.reasoning.features import Batch
from relational_transformer.reasoning.folded_steps import FoldedCarry, begin, between, leave
from relational_transformer.reasoning.network import Network
from relational_transformer.reasoning.steps import Step

from .data import outputs_of

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
        packed = [packing.pack(layer, orders) for layer in detached]
        return LaidOut([as_learnt(layer) for layer in layers], packed)

    def lay_out_forward(self, by_name: Parameters, orders: Orders) -> ForInference:
        """The parameters for `inference`."""
        return [packing.pack_forward(layer, orders) for layer in self.parameters(by_name)]

    def trajectory(self, laid_out: LaidOut, num_steps: int, graphs: int) -> Callable[..., tuple[Tensor, Tensor]]:
        """`nodes, edges = trajectory(step, nodes, edges)`, differentiable, for so many steps and graphs of a seed."""
        return Trajectory(*laid_out, num_steps, graphs, self.num_nodes, update_edges=self.update_edges)

    def inference(self, laid_out: ForInference) -> Callable[..., tuple[Tensor, Tensor]]:
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


class OfTrajectory(NamedTuple):
    """What the steps of a trajectory take: parameters outside of the layers, one vector, and those of the layers."""

    others: Tensor
    layers: LaidOut


class FusedSteps:
    """Runs the steps of a trajectory as `Network.training_step` would, where every layer fits one kernel.

    What lies between the layers of one step and those of the next is one compiled piece (`folded_steps.py`); the layers
    themselves are a trajectory of `KernelLayers`. Both deal with their parameters once for all steps, so a step has the
    fewest launches and adds up the fewest gradients.
    """

    def __init__(self, pieces: Pieces, network: Network, fleet: Fleet, num_nodes: int, precision: Precision) -> None:
        self.fleet = fleet
        self.layers = kernel_layers(network, num_nodes, precision, pieces.device)
        others = {name: shape for name, shape in fleet.shapes.items() if not self.layers.has(name)}
        self.names = tuple(others)
        self._lay_out = pieces.compile(self._parameters)
        self._begin = pieces.of_vector(network, begin, others)
        self._between, self._leave = pieces.of(network, between), pieces.of(network, leave)

    @property
    def fits(self) -> bool:
        """Whether all layers are kernels as things are now."""
        return self.layers.fit

    def begin(self, values: Tensor) -> OfTrajectory:
        """The parameters, a vector like `fleet.values`, as the steps of a trajectory take them."""
        return self._lay_out(values, self.layers.orders)

    def _parameters(self, values: Tensor, orders: Orders) -> OfTrajectory:
        by_name = self.fleet.split(values)
        others = torch.cat([by_name[name].flatten() for name in self.names])
        return OfTrajectory(others, self.layers.lay_out(by_name, orders))

    def run(self, parameters: OfTrajectory, batch: Batch, steps: list[Step]) -> Tensor:
        """The losses [S] of a batch after all of its steps."""
        folded, (carry, nodes, edges) = self._begin(parameters.others, batch.inputs, steps[0].hints)
        carry = _like_later_ones(carry)
        trajectory = self.layers.trajectory(parameters.layers, len(steps), graphs=nodes.shape[1])
        for number, step in enumerate(steps[:-1]):
            nodes, edges = trajectory(number, nodes, edges)
            carry, nodes, edges = self._between({}, folded, carry, step, steps[number + 1], nodes, edges)
        nodes, edges = trajectory(len(steps) - 1, nodes, edges)
        return self._leave({}, folded, carry, steps[-1], outputs_of(batch), nodes, edges)

    def kept_bytes(self, num_steps: int, graphs: int) -> int:
        """What the layers keep for the backward pass of so many steps."""
        return self.layers.kept_bytes(num_steps, self.fleet.num_seeds, graphs) if self.fits else 0


def _like_later_ones(carry: FoldedCarry) -> FoldedCarry:
    """The first carry with gradients where later ones have them, so that to the compiler all steps are alike."""
    return tree_map_only(Tensor, lambda leaf: leaf if leaf.requires_grad else leaf.requires_grad_(), carry)
