"""Training steps of a relational processor, cut at its layers, with folded encoders (`folding.py`).

A trajectory is `begin`, then the layers of each step with `between` from one step to the next, and `leave` after the
last: functions of tensors with the losses and gradients of `Network.training_step`, rounding apart, that build no
encoded features and add up few gradients over the steps. All graphs have the same number of nodes.
"""

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F

from relational_transformer.processors import GraphState
from relational_transformer.processors.relational import RelationalProcessor

from .decoders import pool, read_out
from .encoders import Columns, mix
from .features import Packed
from .folding import Folded, Parts, at_map, fold, maps_of, unfold
from .hints import feed_hints
from .network import Network, keep
from .steps import Step


class FoldedCarry(NamedTuple):
    """What goes from step to step.

    Attributes:
        readings: what the readouts make of the features and the hidden state of a step, before its layers have run.
        outputs, hint_losses: as in `Carry`.
    """

    readings: Packed
    outputs: Packed
    hint_losses: Packed


class Entered(NamedTuple):
    """The carry, and the nodes and edges that the first layer of a step is given."""

    carry: FoldedCarry
    nodes: Tensor
    edges: Tensor


def begin(network: Network, inputs: Packed, step: Step) -> tuple[Folded, Entered]:
    """Fold, and come to the layers of the first step: it sees the true hints, and its hidden state is zero."""
    encoded = network.encode_inputs(inputs)
    folded = fold(network, encoded.features)
    empty = network.initial_carry(encoded)
    nodes, edges, readings = _enter(network, unfold(network, folded), step.hints, None)
    return folded, Entered(FoldedCarry(readings, empty.outputs, empty.hint_losses), nodes, edges)


def between(
    network: Network, folded: Folded, carry: FoldedCarry, step: Step, following: Step, nodes: Tensor, edges: Tensor
) -> Entered:
    """From what the layers of a step have made to what those of the following one are given."""
    parts = unfold(network, folded)
    new = _leave_processor(network, nodes, edges)
    hints, carry = _decode(network, parts, carry, step, new)
    seen = feed_hints(network.hints, following.hints, hints, following.teacher_forced)
    nodes, edges, readings = _enter(network, parts, seen, new)
    return Entered(carry._replace(readings=readings), nodes, edges)


def leave(
    network: Network, folded: Folded, carry: FoldedCarry, step: Step, nodes: Tensor, edges: Tensor
) -> FoldedCarry:
    """The carry after the last step; there is nothing more to read in it."""
    return _decode(network, unfold(network, folded), carry, step, _leave_processor(network, nodes, edges))[1]


def _enter(network: Network, parts: Parts, hints: Packed, hidden: GraphState | None) -> tuple[Tensor, Tensor, Packed]:
    """Nodes and edges for the first layer, and readings, of what a step sees and the hidden state (None: zero)."""
    assert isinstance(network.processor, RelationalProcessor)
    size, num_nodes = network.hidden_size, parts["made.node_input"].shape[-2]
    columns = Columns(None, None, None)
    if network.hint_encoder is not None:
        columns = network.hint_encoder.columns(hints, num_nodes)
    made: Packed = {}
    for location, maps in maps_of(network).items():
        numbers, state = getattr(columns, location), None if hidden is None else getattr(hidden, location)
        for name, start in maps.items():
            total = made.get(name, parts[f"made.{name}"])
            if numbers is not None:
                mixed = mix(at_map(numbers, location, name), parts[f"rows.{location}.{name}"])
                total = total + mixed.to(total.dtype)
            if state is not None and start == 0:
                if f"hidden.{name}" in parts:
                    total = total + F.linear(state, parts[f"hidden.{name}"])
                elif f"states.{name}" in parts:
                    total = total + read_out((state,), parts[f"states.{name}"][:, :size]).to(total.dtype)
            made[name] = total
    readings = {name: total for name, total in made.items() if not name.endswith("_input")}
    if "pooled.weight" in parts:
        readings["pooled"] = _read_pooled(parts, columns.nodes, None if hidden is None else hidden.nodes)
    vectors = (total for name, total in made.items() if name.endswith("_input"))
    return *network.processor.transformer.with_core(*vectors), readings


def _read_pooled(parts: Parts, columns: Tensor | None, hidden: Tensor | None) -> Tensor:
    """The readout of maxima over nodes, which no linear map can look through: here encoded nodes are built."""
    nodes = parts["pooled.nodes"]
    if columns is not None:
        nodes = nodes + mix(columns, parts["pooled.rows"]).to(nodes.dtype)
    maxima = (pool(nodes),) if hidden is None else (pool(nodes), pool(hidden))
    weight = parts["pooled.weight"][:, : len(maxima) * nodes.shape[-1]]
    return read_out(maxima, weight, parts["pooled.bias"])


def _decode(
    network: Network, parts: Parts, carry: FoldedCarry, step: Step, new: GraphState
) -> tuple[Packed, FoldedCarry]:
    """Logits of the hints, and the carry without readings, after the layers of a step have made the `new` state."""
    size = network.hidden_size
    readings = dict(carry.readings)
    for name in readings:
        if name == "pooled":
            added = read_out((pool(new.nodes),), parts["pooled.weight"][:, 2 * size :])
        elif f"states.{name}" in parts:
            added = read_out((getattr(new, name),), parts[f"states.{name}"][:, size:])
        else:
            continue
        readings[name] = readings[name] + added.to(readings[name].dtype)
    score = (parts["score.weight"], parts["score.bias"]) if "score.weight" in parts else None
    hints, outputs = network.decoders.from_readings(readings, score)
    losses = network.add_hint_losses(carry.hint_losses, hints, step)
    return hints, FoldedCarry({}, keep(step.keeps_output, outputs, carry.outputs), losses)


def _leave_processor(network: Network, nodes: Tensor, edges: Tensor) -> GraphState:
    assert isinstance(network.processor, RelationalProcessor)
    return network.processor.leave(nodes, edges)
