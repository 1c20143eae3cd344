"""Training steps whose layers are kernels of their own, between two compiled pieces."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from relational_transformer.nn import RelationalTransformerLayer, kernels
from relational_transformer.nn.kernels.whole_layer.parameters import (
    NAMES,
    Learnt,
    Orders,
    Packed,
    as_learnt,
    orders_on,
    pack,
)
from relational_transformer.nn.kernels.whole_layer.trajectory import Trajectory, kept_bytes
from relational_transformer.processors import GraphState
from relational_transformer.processors.relational import RelationalProcessor
from relational_transformer.reasoning.network import Carry, EncodedInputs, Network
from relational_transformer.reasoning.steps import Step

from .compiling import compiled_for
from .fleet_methods import FleetMethods
from .precision import Precision

LAYERS = "processor.transformer.layers"


class Parameters(NamedTuple):
    """What the steps of a trajectory take: parameters outside of the layers, one vector, and those of the layers."""

    others: Tensor
    learnt: list[Learnt]
    packed: list[Packed]


class AroundLayers:
    """Runs the steps of a trajectory as `Network.training_step` would, where every layer fits one kernel.

    What is before the layers of a step and what is after them are compiled; the layers themselves are a `Trajectory`,
    which deals with their weights once for all steps. So a step has the fewest launches, and the gradients that are
    added up over the steps are those of the `others`, the parameters outside of the layers.
    """

    def __init__(self, methods: FleetMethods, network: Network, num_nodes: int, precision: Precision) -> None:
        self.methods, self.fleet, self.device = methods, methods.fleet, methods.device
        self._lay_out: Callable[[Tensor, Orders], Parameters] | None = None
        self.names = tuple(name for name in self.fleet.shapes if not name.startswith(f"{LAYERS}."))
        self.processor = network.processor
        self.layers: list[RelationalTransformerLayer] = []
        self.num_nodes = num_nodes
        if isinstance(self.processor, RelationalProcessor) and precision == "bf16":
            self.layers = list(self.processor.transformer.layers)  # pyright: ignore[reportAttributeAccessIssue]
            self.num_nodes += self.processor.returns_globals  # the core node
        self._like_edges = torch.empty(
            1, self.num_nodes, self.num_nodes, 0, dtype=torch.bfloat16, device=methods.device
        )

    @property
    def fits(self) -> bool:
        """Whether all layers are kernels as things are now; kernels can be turned on and off."""
        edges = self._like_edges
        return bool(self.layers) and all(kernels.is_one_kernel(layer, edges[:, 0], edges) for layer in self.layers)

    def begin(self, values: Tensor) -> "Parameters":
        """The parameters, a vector like `fleet.values`, as the steps of a trajectory take them."""
        if self._lay_out is None:
            self._lay_out = compiled_for(self._parameters, self.device) if self.methods.compiled else self._parameters
        return self._lay_out(values, orders_on(self.device))

    def _parameters(self, values: Tensor, orders: Orders) -> "Parameters":
        by_name = self.fleet.split(values)
        layers = [{name: by_name[f"{LAYERS}.{number}.{name}"] for name in NAMES} for number in range(len(self.layers))]
        detached = [{name: value.detach() for name, value in layer.items()} for layer in layers]
        return Parameters(
            torch.cat([by_name[name].flatten() for name in self.names]),
            [as_learnt(layer) for layer in layers],
            [pack(layer, orders) for layer in detached],
        )

    def run(self, parameters: "Parameters", encoded: EncodedInputs, carry: Carry, steps: list[Step]) -> Carry:
        """The carry after all steps."""
        graphs = encoded.features.nodes.shape[1]
        trajectory = Trajectory(parameters.learnt, parameters.packed, len(steps), graphs, self.num_nodes)
        for number, step in enumerate(steps):
            seen, nodes, edges = self.call("enter_layers", parameters.others, encoded, carry, step)
            nodes, edges = trajectory(number, nodes, edges)
            rest = self.call("leave_layers", parameters.others, seen, carry, step, nodes, edges)
            carry = Carry(self._hidden(nodes, edges), *rest)
        return carry

    def _hidden(self, nodes: Tensor, edges: Tensor) -> GraphState:
        assert isinstance(self.processor, RelationalProcessor)
        state = self.processor.leave(nodes, edges)
        parts = {name: part.contiguous() for name, part in state._asdict().items() if part is not None}
        return state._replace(**parts)

    def call(self, method: str, others: Tensor, *arguments: Any) -> Any:
        """A method of the network that uses no parameter of the layers."""
        return self.methods.part(self.names)(method, others, *arguments)

    def kept_bytes(self, num_steps: int, graphs: int) -> int:
        """What the layers keep for the backward pass of so many steps."""
        return kept_bytes(len(self.layers), num_steps, self.fleet.num_seeds, graphs, self.num_nodes) if self.fits else 0
