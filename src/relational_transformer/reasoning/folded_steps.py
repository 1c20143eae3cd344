"""Steps of a relational processor or a transformer, cut at its layers, with folded encoders (`folding.py`).

A trajectory is `begin`, then the layers of each step with `between` from one step to the next, and `leave` after the
last. Up to rounding, the losses and gradients are those of `Network.training_step`, but no encoded features are built
and few gradients are summed over the steps. A network that runs on its own hints, as in `Network.predict`, has `go_on`
from one step to the next, and `answer` after the last. All graphs have the same number of nodes.
"""

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F

from relational_transformer.processors import GraphState
from relational_transformer.processors.relational import RelationalProcessor
from relational_transformer.processors.transformer import Transformer

from .decoders import FEW, pool, precise, read_out
from .encoders import Blocks, Columns, mix
from .features import Batch, Packed
from .folding import Folded, Parts, at_map, fold, maps_of, unfold
from .hints import feed_hints, feed_own
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


class Entered(NamedTuple):
    """The carry, and the input nodes and edges of a step's first layer; None where layers read no edges."""

    carry: FoldedCarry
    nodes: Tensor
    edges: Tensor | None


def begin(network: Network, inputs: Packed, hints: Packed) -> tuple[Folded, Entered]:
    """Fold the encoders, and compute the input of the first step's layers: it sees the true hints, and its hidden state
    is zero."""
    encoded = network.encode_inputs(inputs)
    folded = fold(network, encoded.features)
    empty = network.initial_carry(encoded)
    parts = unfold(network, folded, *encoded.features.nodes.shape[:2])
    nodes, edges, readings = _enter(network, parts, hints, None, {})
    return folded, Entered(FoldedCarry(readings, empty.outputs, empty.hint_losses), nodes, edges)


def between(
    network: Network,
    folded: Folded,
    carry: FoldedCarry,
    step: Step,
    following: Step,
    nodes: Tensor,
    edges: Tensor | None,
) -> Entered:
    """From the output of a step's layers to the input of the next step's layers."""
    new = _leave_processor(network, nodes, edges)
    parts = unfold(network, folded, *new.nodes.shape[:2])
    read, read_ahead = _read(parts, new)
    hints, carry = _decode(network, parts, carry, step.keeps_output, read)
    carry = carry._replace(hint_losses=network.add_hint_losses(carry.hint_losses, hints, step))
    feeding = network.feeding(training=True)
    seen = feed_hints(network.hints, following.hints, hints, following.teacher_forced, feeding)
    nodes, edges, readings = _enter(network, parts, seen, new, read_ahead)
    return Entered(carry._replace(readings=readings), nodes, edges)


def go_on(
    network: Network, folded: Folded, carry: FoldedCarry, keeps_output: Tensor, nodes: Tensor, edges: Tensor | None
) -> Entered:
    """`between` for a network that sees only its own hints; `keeps_output` [B] as in `Step`."""
    new = _leave_processor(network, nodes, edges)
    parts = unfold(network, folded, *new.nodes.shape[:2])
    read, read_ahead = _read(parts, new)
    hints, carry = _decode(network, parts, carry, keeps_output, read)
    feeding = network.feeding(training=False)
    seen = {group.key: feed_own(group, hints[group.key], feeding) for group in network.hints}
    nodes, edges, readings = _enter(network, parts, seen, new, read_ahead)
    return Entered(carry._replace(readings=readings), nodes, edges)


def leave(
    network: Network, folded: Folded, carry: FoldedCarry, step: Step, batch: Batch, nodes: Tensor, edges: Tensor | None
) -> Tensor:
    """The loss of a batch after its last step. Only the outputs of the batch are read."""
    new = _leave_processor(network, nodes, edges)
    parts = unfold(network, folded, *new.nodes.shape[:2])
    hints, last = _decode(network, parts, carry, step.keeps_output, _read(parts, new)[0])
    losses = network.add_hint_losses(carry.hint_losses, hints, step)
    return network.loss(batch, Carry(new, hints, last.outputs, losses))


def answer(
    network: Network, folded: Folded, carry: FoldedCarry, keeps_output: Tensor, nodes: Tensor, edges: Tensor | None
) -> Packed:
    """The logits of the outputs at each example's last step, after the last step of the batch."""
    new = _leave_processor(network, nodes, edges)
    parts = unfold(network, folded, *new.nodes.shape[:2])
    read, _ = _read(parts, new)
    return _decode(network, parts, carry, keeps_output, read)[1].outputs


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
        if channels <= FEW:
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


def _decode(
    network: Network, parts: Parts, carry: FoldedCarry, keeps_output: Tensor, read: Packed
) -> tuple[Packed, FoldedCarry]:
    """The logits of the hints, and the carry with new outputs and without readings, from the readouts' results `read`
    on the new state of a step."""
    readings = _plus(carry.readings, read)
    score = (parts["score.weight"], parts["score.bias"]) if "score.weight" in parts else None
    hints, outputs = network.decoders.from_readings(readings, score)
    return hints, FoldedCarry({}, keep(keeps_output, outputs, carry.outputs), carry.hint_losses)


def _leave_processor(network: Network, nodes: Tensor, edges: Tensor | None) -> GraphState:
    if edges is None:
        return GraphState(nodes)
    assert isinstance(network.processor, RelationalProcessor)
    return network.processor.leave(nodes, edges)
