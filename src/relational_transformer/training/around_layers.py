"""Training steps whose layers are kernels of their own, between two compiled pieces."""

from typing import Any

import torch
from torch import Tensor

from relational_transformer.nn import RelationalTransformerLayer, kernels
from relational_transformer.nn.kernels.whole_layer.parameters import NAMES
from relational_transformer.nn.kernels.whole_layer.trajectory import Trajectory, kept_bytes
from relational_transformer.processors.relational import RelationalProcessor
from relational_transformer.reasoning.network import Carry, EncodedInputs, Network
from relational_transformer.reasoning.steps import Step

from .fleet_methods import FleetMethods
from .precision import Precision

LAYERS = "processor.transformer.layers"


class AroundLayers:
    """Runs the steps of a trajectory as `Network.training_step` would, where every layer fits one kernel.

    What is before the layers of a step and what is after them are compiled; the layers themselves are a `Trajectory`,
    which deals with their weights once for all steps. So a step has the fewest launches, and the gradients that are
    added up over the steps are those of the `others`, the parameters outside of the layers.
    """

    def __init__(self, methods: FleetMethods, network: Network, num_nodes: int, precision: Precision) -> None:
        self.methods, self.fleet = methods, methods.fleet
        self.names = tuple(name for name in self.fleet.shapes if not name.startswith(f"{LAYERS}."))
        self.layers: list[RelationalTransformerLayer] = []
        self.num_nodes = num_nodes
        if isinstance(network.processor, RelationalProcessor) and precision == "bf16":
            self.layers = list(network.processor.transformer.layers)  # pyright: ignore[reportAttributeAccessIssue]
            self.num_nodes += network.processor.returns_globals  # the core node
        self._like_edges = torch.empty(
            1, self.num_nodes, self.num_nodes, 0, dtype=torch.bfloat16, device=methods.device
        )

    @property
    def fits(self) -> bool:
        """Whether all layers are kernels as things are now; kernels can be turned on and off."""
        edges = self._like_edges
        if not self.layers or not kernels.enabled(edges):
            return False
        return all(kernels.is_one_kernel(layer, edges[:, 0], edges) for layer in self.layers)

    def others(self, values: Tensor) -> Tensor:
        """Of a vector like `fleet.values` the part outside of the layers, one vector."""
        by_name = self.fleet.split(values)
        return torch.cat([by_name[name].flatten() for name in self.names])

    def run(self, values: Tensor, others: Tensor, encoded: EncodedInputs, carry: Carry, steps: list[Step]) -> Carry:
        """The carry after all steps."""
        by_name = self.fleet.split(values)
        layers = [{name: by_name[f"{LAYERS}.{number}.{name}"] for name in NAMES} for number in range(len(self.layers))]
        graphs = encoded.features.nodes.shape[1]
        trajectory = Trajectory(layers, len(steps), graphs, self.num_nodes)
        for number, step in enumerate(steps):
            seen, nodes, edges = self.call("enter_layers", others, encoded, carry, step)
            nodes, edges = trajectory(number, nodes, edges)
            carry = self.call("leave_layers", others, seen, carry, step, nodes, edges)
        return carry

    def call(self, method: str, others: Tensor, *arguments: Any) -> Any:
        """A method of the network that uses no parameter of the layers."""
        return self.methods.part(self.names)(method, others, *arguments)

    def kept_bytes(self, num_steps: int, graphs: int) -> int:
        """What the layers keep for the backward pass of so many steps."""
        return kept_bytes(len(self.layers), num_steps, self.fleet.num_seeds, graphs, self.num_nodes) if self.fits else 0
