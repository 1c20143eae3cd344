"""Steps of a network whose layers are kernels of their own: the layers, and compiled pieces between them."""

from copy import copy
from functools import partial
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from relational_transformer.fleet.fleet import Fleet
from relational_transformer.fleet.pieces import Pieces
from relational_transformer.fleet.precision import Precision
from relational_transformer.nn.kernels import KernelLayers, LaidOut, Orders
from relational_transformer.nn.plain import is_plain, is_plain_inside
from relational_transformer.processors.relational import RelationalProcessor
from relational_transformer.reasoning.features import Batch
from relational_transformer.reasoning.folded_steps import FoldedCarry, begin, between, leave
from relational_transformer.reasoning.network import Network
from relational_transformer.reasoning.steps import Step

from .data import outputs_of

PREFIX = "processor.transformer.layers."
"""What names of the layers' parameters begin with."""


def kernel_layers(network: Network, num_nodes: int, precision: Precision, device: torch.device) -> KernelLayers:
    """The layers of a network on graphs of so many nodes; also of a subclass of its processor that leaves its steps as
    they are."""
    processor = network.processor
    if (
        not isinstance(processor, RelationalProcessor)
        or not (is_plain(processor) and is_plain_inside(processor))
        or precision != "bf16"
    ):
        return KernelLayers((), num_nodes, device, prefix=PREFIX)
    layers = tuple(processor.transformer.layers)
    return KernelLayers(layers, num_nodes + processor.returns_globals, device, prefix=PREFIX)


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
        self._layers_of = partial(kernel_layers, network, precision=precision, device=pieces.device)
        self.layers = self._layers_of(num_nodes)
        others = {name: shape for name, shape in fleet.shapes.items() if not self.layers.has(name)}
        self.names = tuple(others)
        self._lay_out = pieces.compile(self._parameters)
        self._begin = pieces.of_vector(network, begin, others)
        self._between, self._leave = pieces.of(network, between), pieces.of(network, leave)

    def of_size(self, num_nodes: int) -> Self:
        """The same for graphs of so many nodes, through the same compiled functions."""
        other = copy(self)
        other.layers = self._layers_of(num_nodes)
        return other

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
