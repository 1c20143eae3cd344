"""Training steps whose layers are kernels of their own, between compiled pieces."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from relational_transformer.nn.kernels.whole_layer.packing import Orders
from relational_transformer.reasoning.features import Batch
from relational_transformer.reasoning.folded_steps import FoldedCarry, begin, between, leave
from relational_transformer.reasoning.network import Network
from relational_transformer.reasoning.steps import Step

from .data import outputs_of
from .fleet_methods import FleetMethods
from .kernel_layers import LaidOut, kernel_layers
from .over_seeds import Method
from .precision import Precision


class Parameters(NamedTuple):
    """What the steps of a trajectory take: parameters outside of the layers, one vector, and those of the layers."""

    others: Tensor
    layers: LaidOut


class AroundLayers:
    """Runs the steps of a trajectory as `Network.training_step` would, where every layer fits one kernel.

    What lies between the layers of one step and those of the next is one compiled piece (`folded_steps.py`); the layers
    themselves are a trajectory of `KernelLayers`. Both deal with their parameters once for all steps, so a step has the
    fewest launches and adds up the fewest gradients.
    """

    def __init__(self, methods: FleetMethods, network: Network, num_nodes: int, precision: Precision) -> None:
        self.methods, self.fleet, self.device = methods, methods.fleet, methods.device
        self.layers = kernel_layers(network, num_nodes, precision, methods.device)
        self.names = tuple(name for name in self.fleet.shapes if not self.layers.has(name))

    @property
    def fits(self) -> bool:
        """Whether all layers are kernels as things are now."""
        return self.layers.fit

    def begin(self, values: Tensor) -> "Parameters":
        """The parameters, a vector like `fleet.values`, as the steps of a trajectory take them."""
        return self.methods.compiled_once(self._parameters)(values, self.layers.orders)

    def _parameters(self, values: Tensor, orders: Orders) -> "Parameters":
        by_name = self.fleet.split(values)
        others = torch.cat([by_name[name].flatten() for name in self.names])
        return Parameters(others, self.layers.lay_out(by_name, orders))

    def run(self, parameters: "Parameters", batch: Batch, steps: list[Step]) -> Tensor:
        """The losses [S] of a batch after all of its steps."""
        folded, (carry, nodes, edges) = self.call(begin, parameters.others, batch.inputs, steps[0].hints)
        carry = _like_later_ones(carry)
        trajectory = self.layers.trajectory(parameters.layers, len(steps), graphs=nodes.shape[1])
        for number, step in enumerate(steps[:-1]):
            nodes, edges = trajectory(number, nodes, edges)
            carry, nodes, edges = self.methods(between, None, folded, carry, step, steps[number + 1], nodes, edges)
        nodes, edges = trajectory(len(steps) - 1, nodes, edges)
        return self.methods(leave, None, folded, carry, steps[-1], outputs_of(batch), nodes, edges)

    def call(self, method: Method, others: Tensor, *arguments: Any) -> Any:
        """A method of the network that uses no parameter of the layers."""
        return self.methods.part(self.names)(method, others, *arguments)

    def kept_bytes(self, num_steps: int, graphs: int) -> int:
        """What the layers keep for the backward pass of so many steps."""
        return self.layers.kept_bytes(num_steps, self.fleet.num_seeds, graphs) if self.fits else 0


def _like_later_ones(carry: FoldedCarry) -> FoldedCarry:
    """The first carry with gradients where later ones have them, so that to the compiler all steps are alike."""
    return tree_map_only(Tensor, lambda leaf: leaf if leaf.requires_grad else leaf.requires_grad_(), carry)
