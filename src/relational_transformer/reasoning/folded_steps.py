"""Steps of a relational processor or a transformer, cut at its layers, with folded encoders (`folding.py`).

A trajectory is `begin`, then the layers of each step with `between` from one step to the next, and `leave` after the
last. Up to rounding, the losses and gradients are those of `Network.training_step`, but no encoded features are built
and few gradients are summed over the steps. A network that runs on its own hints, as in `Network.predict`, has `go_on`
from one step to the next, and `answer` after the last. All graphs have the same number of nodes.

Compiled, the losses of a step cost little beside its other operations. Not compiled, they are a third of all launches,
so there is a second cut: `advance` from one step to the next and `say` after the last return logits, and `conclude`
computes the losses of all steps at once.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from relational_transformer.processors import GraphState
from relational_transformer.processors.relational import RelationalProcessor
from relational_transformer.processors.transformer import Transformer

from .decoders import FEW, pool, precise, read_out
from .encoders import Blocks, Columns, joined, mix
from .features import Batch, Packed
from .folding import Parts, Shared, at_map, fold, maps_of, unfold
from .hints import feed_hints, feed_own
from .losses import hint_losses
from .network import Carry, Network
from .steps import Step, keep


class FoldedCarry(NamedTuple):
    """The state that is carried from step to step.

    Attributes:
        readings: the results of the readouts on the features and the hidden state of a step, before its layers have
        run.
        outputs, hint_losses: as in `Carry`.
    """

    readings: Packed
    outputs: Packed
    hint_losses: Packed


class Said(NamedTuple):
    """The logits of a step's hints and outputs."""

    hints: Packed
    outputs: Packed


class Entered(NamedTuple):
    """The carry, and the input nodes and edges of a step's first layer; None where layers read no edges."""

    carry: FoldedCarry
    nodes: Tensor
    edges: Tensor | None


def begin(network: Network, inputs: Packed, hints: Packed) -> tuple[Shared, Entered]:
    """Fold the encoders, and compute the input of the first step's layers: it sees the true hints, and its hidden state
    is zero."""
    encoded = network.encode_inputs(inputs)
    folded = fold(network, encoded.features)
    empty = network.initial_carry(encoded)
    parts = unfold(network, folded, *encoded.features.nodes.shape[:2])
    nodes, edges, readings = _enter(network, parts, hints, None, {})
    return folded, Entered(FoldedCarry(readings, empty.outputs, empty.hint_losses), nodes, edges)


def between(
    network: Network, folded: Shared, carry: FoldedCarry, step: Step, following: Step, nodes: Tensor,
    edges: Tensor | None,
) -> Entered:  # fmt: skip
    """From the output of a step's layers to the input of the next step's layers."""
    said, readings, nodes, edges = advance(network, folded, carry.readings, nodes, edges, following)
    losses = network.add_hint_losses(carry.hint_losses, said.hints, step)
    return Entered(FoldedCarry(readings, keep(step.keeps_output, said.outputs, carry.outputs), losses), nodes, edges)


def go_on(
    network: Network, folded: Shared, carry: FoldedCarry, keeps_output: Tensor, nodes: Tensor, edges: Tensor | None
) -> Entered:
    """`between` for a network that sees only its own hints; `keeps_output` [B] as in `Step`."""
    said, readings, nodes, edges = advance(network, folded, carry.readings, nodes, edges, training=False)
    outputs = keep(keeps_output, said.outputs, carry.outputs)
    return Entered(FoldedCarry(readings, outputs, carry.hint_losses), nodes, edges)


def advance(
    network: Network, folded: Shared, readings: Packed, nodes: Tensor, edges: Tensor | None,
    following: Step | None = None, *, training: bool = True,
) -> tuple[Said, Packed, Tensor, Tensor | None]:  # fmt: skip
    """What a step says, and the readings and the layers' input of the next one. Without `following`, no example sees
    true hints in the next step."""
    new = _leave_processor(network, nodes, edges)
    parts = unfold(network, folded, *new.nodes.shape[:2])
    read, read_ahead = _read(parts, new)
    said = _say(network, parts, readings, read)
    feeding = network.feeding(training=training)
    if following is None:
        seen = {group.key: feed_own(group, said.hints[group.key], feeding) for group in network.hints}
    else:
        seen = feed_hints(network.hints, following.hints, said.hints, following.teacher_forced, feeding)
    nodes, edges, readings = _enter(network, parts, seen, new, read_ahead)
    return said, readings, nodes, edges


def say(network: Network, folded: Shared, readings: Packed, nodes: Tensor, edges: Tensor | None) -> Said:
    """What the last step says."""
    new = _leave_processor(network, nodes, edges)
    parts = unfold(network, folded, *new.nodes.shape[:2])
    return _say(network, parts, readings, _read(parts, new)[0])


def conclude(network: Network, batch: Batch, steps: Sequence[Step], said: Sequence[Said]) -> Tensor:
    """The loss of a batch, of which only the outputs are read, from what every step has said."""
    is_target = torch.cat([step.is_target for step in steps])
    of_hints: Packed = {}
    for group in network.hints:
        key = group.key
        logits, truth = torch.cat([one.hints[key] for one in said]), torch.cat([step.next_hints[key] for step in steps])
        of_hints[key] = hint_losses(group, logits, truth, is_target, steps[0].totals[key])
    last = torch.stack([step.keeps_output for step in steps]).sum(0) - 1  # of every example, [B]
    outputs = {key: _of_step([one.outputs[key] for one in said], last) for key in said[0].outputs}
    return network.loss(batch, Carry(GraphState(is_target), {}, outputs, of_hints))  # which reads no hidden state


def _of_step(logits: Sequence[Tensor], number: Tensor) -> Tensor:
    """Of the logits [B, ...] of all steps, those of step `number` [B] of each example."""
    index = number.reshape(1, -1, *(1,) * (logits[0].dim() - 1)).expand(1, *logits[0].shape)
    return torch.stack([*logits]).gather(0, index).squeeze(0)


def leave(
    network: Network, folded: Shared, carry: FoldedCarry, step: Step, batch: Batch, nodes: Tensor, edges: Tensor | None
) -> Tensor:
    """The loss of a batch after its last step. Only the outputs of the batch are read."""
    said = say(network, folded, carry.readings, nodes, edges)
    outputs = keep(step.keeps_output, said.outputs, carry.outputs)
    losses = network.add_hint_losses(carry.hint_losses, said.hints, step)
    return network.loss(batch, Carry(GraphState(nodes), said.hints, outputs, losses))


def answer(
    network: Network, folded: Shared, carry: FoldedCarry, keeps_output: Tensor, nodes: Tensor, edges: Tensor | None
) -> Packed:
    """The logits of the outputs at each example's last step, after the last step of the batch."""
    said = say(network, folded, carry.readings, nodes, edges)
    return keep(keeps_output, said.outputs, carry.outputs)


def _read(parts: Parts, state: GraphState) -> tuple[Packed, Packed]:
    """The results of the readouts on a new state, by source: for its own step, and for the next one, of which it is the
    hidden state. So the vectors themselves need not be carried along."""
    now: Packed = {}
    ahead: Packed = {}
    for name in ("nodes", "edges", "globals", "pooled"):
        if f"states.{name}" not in parts:
            continue
        weight = parts[f"states.{name}"]
        vectors = pool(state.nodes) if name == "pooled" else getattr(state, name)
        channels = len(weight) // 2
        if channels <= FEW and torch.compiler.is_compiling():
            now[name], ahead[name] = (read_out((vectors,), half) for half in weight.split(channels))
        else:
            now[name], ahead[name] = read_out((vectors,), weight).split(channels, dim=-1)
    return now, ahead


def _enter(
    network: Network, parts: Parts, hints: Packed, hidden: GraphState | None, read: Packed
) -> tuple[Tensor, Tensor | None, Packed]:
    """Input nodes and edges of the first layer, and readings, from the hints of a step and the hidden state. `read` has
    the results of the readouts on that state (None and empty if the state is zero)."""
    num_nodes = parts["made.node_input"].shape[-2]
    columns = Columns(None, None, None)
    if network.hint_encoder is not None:
        columns = network.hint_encoder.columns(hints, num_nodes)
    made: Packed = {}
    for location, maps in maps_of(network).items():
        blocks, state = getattr(columns, location), None if hidden is None else getattr(hidden, location)
        if blocks is not None and not torch.compiler.is_compiling():
            blocks = (joined(blocks),)  # once for all maps
        for name, start in maps.items():
            total = made.get(name, parts[f"made.{name}"])
            if blocks is not None:
                blocks_of_map = [at_map(block, location, name) for block in blocks]
                mixed = mix(blocks_of_map, parts[f"rows.{location}.{name}"])
                total = total + mixed.to(total.dtype)
            if state is not None and start == 0 and f"hidden.{name}" in parts:
                total = total + F.linear(state, parts[f"hidden.{name}"])
            made[name] = total
    readings = {name: total for name, total in made.items() if not name.endswith("_input")}
    if "pooled.weight" in parts:
        readings["pooled"] = _read_pooled(parts, columns.nodes)
    readings = _plus(readings, read)
    if isinstance(network.processor, Transformer):
        return made["node_input"], None, readings
    assert isinstance(network.processor, RelationalProcessor)
    vectors = (total for name, total in made.items() if name.endswith("_input"))
    return *network.processor.transformer.with_core(*vectors), readings


def _read_pooled(parts: Parts, blocks: Blocks | None) -> Tensor:
    """The readout of a maximum over nodes. A maximum is not linear, so encoded nodes are built here."""
    nodes = parts["pooled.nodes"]
    if blocks is not None:
        nodes = nodes + mix(blocks, parts["pooled.rows"]).to(nodes.dtype)
    reading = read_out((pool(nodes),), parts["pooled.weight"], parts["pooled.bias"])
    return reading.to(precise(reading))


def _plus(readings: Packed, more: Packed) -> Packed:
    return {
        name: reading + more[name].to(reading.dtype) if name in more else reading for name, reading in readings.items()
    }


def _say(network: Network, parts: Parts, readings: Packed, read: Packed) -> Said:
    """The logits of a step, from its readings and the readouts' results `read` on its new state."""
    score = (parts["score.weight"], parts["score.bias"]) if "score.weight" in parts else None
    return Said(*network.decoders.from_readings(_plus(readings, read), score))


def _leave_processor(network: Network, nodes: Tensor, edges: Tensor | None) -> GraphState:
    if edges is None:
        return GraphState(nodes)
    assert isinstance(network.processor, RelationalProcessor)
    return network.processor.leave(nodes, edges)
