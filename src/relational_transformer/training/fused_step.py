"""Training steps of a network whose layers are fused kernels: the layers, and compiled functions between them."""

from copy import copy
from functools import partial
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from relational_transformer.fleet.fleet import Fleet
from relational_transformer.fleet.pieces import Pieces
from relational_transformer.nn.kernels import KernelLayers, LaidOut, Orders
from relational_transformer.nn.plain import is_plain, is_plain_inside
from relational_transformer.processors.relational import RelationalProcessor
from relational_transformer.reasoning.features import Batch, Packed
from relational_transformer.reasoning.folded_steps import FoldedCarry, advance, begin, between, conclude, leave, say
from relational_transformer.reasoning.folding import Shared, can_fold
from relational_transformer.reasoning.network import Network
from relational_transformer.reasoning.steps import Step

from .data import outputs_of

PREFIX = "processor.transformer.layers."
"""The prefix of the names of the layers' parameters."""


def can_fuse(network: Network) -> bool:
    """Whether the processor is a plain relational transformer, and its steps can be folded. A subclass of it that
    overrides no method of a step counts as plain."""
    processor = network.processor
    if not isinstance(processor, RelationalProcessor):
        return False
    return is_plain(processor) and is_plain_inside(processor) and can_fold(network)


def kernel_layers(network: Network, num_nodes: int, device: torch.device) -> KernelLayers:
    """The layers of a network that `can_fuse`, on graphs of `num_nodes` nodes."""
    assert isinstance(network.processor, RelationalProcessor)
    layers, extra = network.processor.transformer.layers, network.processor.returns_globals
    return KernelLayers(tuple(layers), num_nodes + extra, device, prefix=PREFIX)


class OfTrajectory(NamedTuple):
    """The parameters as all steps of a trajectory read them: those outside of the layers as one vector, and those of
    the layers."""

    others: Tensor
    layers: LaidOut


class FusedSteps:
    """Runs the steps of a trajectory as `Network.training_step` does, where every layer is one fused kernel.

    All operations between the layers of one step and those of the next are one compiled function (`folded_steps.py`).
    The layers themselves are a trajectory of `KernelLayers`. Both prepare their parameters once for all steps, which
    keeps the launches of a step and the sums of gradients few.
    """

    def __init__(self, pieces: Pieces, network: Network, fleet: Fleet, num_nodes: int, *, forces: bool) -> None:
        self.fleet, self.forces, self.compiled = fleet, forces, pieces.compiled
        self._layers_of = partial(kernel_layers, network, device=pieces.device)
        self.layers = self._layers_of(num_nodes)
        self.layers.compile_ahead("layer_forward", "layer_backward")
        others = {name: shape for name, shape in fleet.shapes.items() if not self.layers.has(name)}
        self.names = tuple(others)
        self._lay_out = pieces.compile(self._parameters)
        self._begin = pieces.of_vector(network, begin, others)
        self._between, self._leave = pieces.of(network, between), pieces.of(network, leave)
        self._advance, self._say = pieces.of(network, advance), pieces.of(network, say)
        self._conclude = pieces.of(network, conclude)

    def of_size(self, num_nodes: int) -> Self:
        """A copy for graphs of `num_nodes` nodes that shares the compiled functions."""
        other = copy(self)
        other.layers = self._layers_of(num_nodes)
        other.layers.compile_ahead("layer_forward", "layer_backward")
        return other

    @property
    def fits(self) -> bool:
        """Whether all layers run as fused kernels now; `use_kernels` may switch them off."""
        return self.layers.fit

    def begin(self, values: Tensor) -> OfTrajectory:
        """Prepare the parameters, a vector like `fleet.values`, for the steps of a trajectory."""
        return self._lay_out(values, self.layers.orders)

    def _parameters(self, values: Tensor, orders: Orders) -> OfTrajectory:
        by_name = self.fleet.split(values)
        others = torch.cat([by_name[name].flatten() for name in self.names])
        return OfTrajectory(others, self.layers.lay_out(by_name, orders))

    def run(self, parameters: OfTrajectory, batch: Batch, steps: list[Step]) -> Tensor:
        """The losses [S] of a batch over all of its steps."""
        folded, (carry, nodes, edges) = self._begin(parameters.others, batch.inputs, steps[0].hints)
        trajectory = self.layers.trajectory(parameters.layers, len(steps), graphs=nodes.shape[1])
        outputs = outputs_of(batch)
        if not self.compiled:
            return self._run(folded, carry.readings, nodes, edges, trajectory, outputs, steps)
        carry = _requiring_gradients(carry)
        for number, step in enumerate(steps[:-1]):
            nodes, edges = trajectory(number, nodes, edges)
            carry, nodes, edges = self._between({}, folded, carry, step, steps[number + 1], nodes, edges)
        nodes, edges = trajectory(len(steps) - 1, nodes, edges)
        return self._leave({}, folded, carry, steps[-1], outputs, nodes, edges)

    def _run(
        self, folded: Shared, readings: Packed, nodes: Tensor, edges: Tensor | None, trajectory: Any, outputs: Batch,
        steps: list[Step],
    ) -> Tensor:  # fmt: skip
        """The same in as few operations as possible, which are not compiled."""
        all_said = []
        for number, following in enumerate(steps[1:]):
            nodes, edges = trajectory(number, nodes, edges)
            seen = following if self.forces else None
            said, readings, nodes, edges = self._advance({}, folded, readings, nodes, edges, seen)
            all_said.append(said)
        nodes, edges = trajectory(len(steps) - 1, nodes, edges)
        all_said.append(self._say({}, folded, readings, nodes, edges))
        return self._conclude({}, outputs, steps, all_said)

    def kept_bytes(self, num_steps: int, graphs: int) -> int:
        """The bytes that the layers keep for the backward pass of `num_steps` steps."""
        return self.layers.kept_bytes(num_steps, self.fleet.num_seeds, graphs) if self.fits else 0


def _requiring_gradients(carry: FoldedCarry) -> FoldedCarry:
    """The first carry, with gradients required wherever later carries have them, so that all steps share one compiled
    function."""
    return tree_map_only(Tensor, lambda leaf: leaf if leaf.requires_grad else leaf.requires_grad_(), carry)
