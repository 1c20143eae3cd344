"""Encode, process, decode: a network that runs an algorithm step by step."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from relational_transformer.clrs.spec import SPECS, Spec, Stage
from relational_transformer.nn.checks import check_choice, check_flag, check_positive, check_size, shown
from relational_transformer.processors import GraphState, Processor

from .checks import check_lengths, check_prediction, check_spec, check_training_batch
from .decoders import Decoders, Parts
from .encoders import EdgePointers, EncodedFeatures, Encoder, bound_pointers
from .features import Batch, FeatureGroup, Packed, group_features, pack, present_features, unpack
from .hints import Feeding, HintFeedback, feed_hints, feeding_of, passes_gradients
from .losses import hint_losses, output_losses
from .steps import Schedule, Step, keep, make_schedule, make_steps

HintMode = Literal["encoded_decoded", "decoded_only", "none"]


class EncodedInputs(NamedTuple):
    """The inputs of a batch, encoded once for all steps. The adjacency, bool [B, N, N], is None where it is not
    used."""

    features: GraphState
    adjacency: Tensor | None
    node_mask: Tensor | None


class Carry(NamedTuple):
    """The state that is carried from step to step.

    Attributes:
        hidden: the processor's state.
        hints: packed logits of the hints of the last step.
        outputs: packed logits of the outputs, as of each example's last step so far.
        hint_losses: the sum of the loss of every hint over the steps so far, [F] by key; zero outside training.
    """

    hidden: GraphState
    hints: Packed
    outputs: Packed
    hint_losses: Packed


class Losses(NamedTuple):
    """The loss, and the part of each output and hint in it by name.

    >>> part = torch.tensor(0.5)
    >>> Losses(part, {"pi": part}).by_feature["pi"].item()
    0.5
    """

    total: Tensor
    by_feature: dict[str, Tensor]


class Prediction(NamedTuple):
    """Logits by name: of outputs [B, ...], and with `keep_hints` of hints [steps, B, ...].

    Logits of a permutation are those of single pointers, before Sinkhorn's iterations (`permutations.py`).

    >>> prediction = Prediction({"pi": torch.eye(3).unsqueeze(0)}, hints=None)
    >>> prediction.outputs["pi"].argmax(-1).tolist()  # the node that each node points to
    [[0, 1, 2]]
    """

    outputs: dict[str, Tensor]
    hints: dict[str, Tensor] | None


class Network(nn.Module):
    """A processor between the encoders and decoders of one algorithm.

    Args:
        algorithm: a name in `clrs.SPECS`, or a spec.
        processor: the network that runs at every step.
        hidden_size: the size of all vectors, that of the processor.
        pointers_from_edges: decode node pointers from edge vectors alone, as the paper's RT does.
        hint_mode: whether hints are inputs and outputs of a step, only outputs, or not used.
        hint_feedback: the form in which a step sees predicted hints, see `HintFeedback`.
        small_scalar_hints: initialise the encoders of scalar hints with small weights, as if there were `hidden_size`
            hints.
        edge_pointers: how pointers of edges are encoded and decoded, see `EdgePointers`.

    `activation_dtype` is the dtype of vectors between steps; None for that of the parameters.

    A training loss is `network(batch, teacher_forced)`. A loop of your own calls `encode_inputs`, `initial_carry`,
    `training_step` for every one of `steps`, and `losses`: pure functions of tensors, to compile, capture or vmap.

    >>> from relational_transformer.clrs import sample
    >>> from relational_transformer.processors import Settings
    >>> from relational_transformer.reasoning import build_network
    >>> network = build_network("bfs", Settings(hidden_size=16, num_heads=2, num_layers=1))
    >>> data = sample("bfs", num_samples=2, length=5, seed=0)
    >>> stages = (data.inputs, data.hints, data.outputs)
    >>> tensors = ({name: torch.from_numpy(array) for name, array in stage.items()} for stage in stages)
    >>> batch = network.pack(*tensors, torch.from_numpy(data.lengths))
    >>> losses = network(batch, teacher_forced=torch.ones(len(batch.hints["node_mask"]) - 1, 2, dtype=torch.bool))
    >>> losses.total.dim(), sorted(losses.by_feature)
    (0, ['pi', 'pi_h', 'reach_h'])
    >>> first_hints = {key: hint[0] for key, hint in batch.hints.items()}
    >>> network.predict(batch.inputs, first_hints, batch.lengths).outputs["pi"].shape
    torch.Size([2, 5, 5])
    """

    def __init__(
        self,
        algorithm: str | Spec,
        processor: Processor,
        hidden_size: int,
        *,
        pointers_from_edges: bool = False,
        hint_mode: HintMode = "encoded_decoded",
        hint_feedback: HintFeedback = "paper",
        small_scalar_hints: bool = False,
        edge_pointers: EdgePointers = "averaged",
    ) -> None:
        super().__init__()
        check_choice("hint_mode", hint_mode, get_args(HintMode))
        check_choice("hint_feedback", hint_feedback, get_args(HintFeedback))
        check_choice("edge_pointers", edge_pointers, get_args(EdgePointers))
        check_flag(pointers_from_edges=pointers_from_edges, small_scalar_hints=small_scalar_hints)
        check_size(hidden_size=hidden_size)
        if not isinstance(processor, Processor):
            raise ValueError(f"processor must be a Processor, got {shown(processor)}")
        spec = find_spec(algorithm)
        self.hidden_size = hidden_size
        self.activation_dtype: torch.dtype | None = None
        self.hint_feedback: HintFeedback = hint_feedback
        self.inputs = group_features(spec, Stage.INPUT)
        self.hints = group_features(spec, Stage.HINT) if hint_mode != "none" else ()
        self.outputs = group_features(spec, Stage.OUTPUT)
        self.input_encoder = Encoder(self.inputs, hidden_size)
        self.hint_encoder = self.bound_pointers = None
        if hint_mode == "encoded_decoded":
            self.hint_encoder = Encoder(self.hints, hidden_size, small_scalars=small_scalar_hints)
            self.bound_pointers = bound_pointers(self.hints, hidden_size) if edge_pointers == "bound" else None
        self.processor = processor
        self.decoders = Decoders(
            self.hints,
            self.outputs,
            hidden_size,
            edge_parts=3 if processor.returns_edges else 2 if processor.returns_messages else 1,
            global_parts=3 if processor.returns_globals else 1,
            pointers_from_edges=pointers_from_edges,
            edge_pointers=edge_pointers,
            masked=processor.masks_decoders,
        )

    def pack(
        self,
        inputs: Mapping[str, Tensor],
        hints: Mapping[str, Tensor],
        outputs: Mapping[str, Tensor],
        lengths: Tensor,
        node_mask: Tensor | None = None,
    ) -> Batch:
        """Pack features by name, as `clrs.sample` returns them, into a batch."""
        check_lengths(lengths)
        if node_mask is not None and (not isinstance(node_mask, Tensor) or node_mask.dtype != torch.bool):
            raise ValueError(f"node_mask must be a bool tensor [B, N], got {shown(node_mask)}")
        packed = (pack(self.inputs, inputs), pack(self.hints, hints), pack(self.outputs, outputs))
        return Batch(*packed, lengths, node_mask)

    def noise_shape(self, num_nodes: int) -> tuple[int, ...] | None:
        """The shape of `Batch.noise` for one example; None where no output is a permutation."""
        shapes = [group.logits_shape(num_nodes) for group in self.outputs if group.is_permutation]
        return shapes[0] if shapes else None

    def forward(self, batch: Batch, teacher_forced: Tensor) -> Losses:
        """The training loss of a batch.

        Args:
            batch: a batch made by `pack`.
            teacher_forced: bool [T - 1, B], True where the step sees the true hints and not the model's own; the first
                step always does.
        """
        if not torch.compiler.is_compiling():
            check_training_batch(self, batch, teacher_forced)
        batch = batch.present(self.inputs, self.hints, self.outputs)
        inputs = self.encode_inputs(batch.inputs, batch.node_mask)
        carry = self.initial_carry(inputs)
        for step in self.steps(batch, teacher_forced):
            carry = self.training_step(inputs, carry, step)
        return self.losses(batch, carry)

    def steps(self, batch: Batch, teacher_forced: Tensor) -> list[Step]:
        """The steps of a batch."""
        return make_steps(batch.hints, self.schedule(batch, teacher_forced))

    def schedule(self, batch: Batch, teacher_forced: Tensor) -> Schedule:
        """The steps without the hints, by `make_schedule`."""
        return make_schedule(self.hints, batch, teacher_forced)

    def encode_inputs(self, inputs: Packed, node_mask: Tensor | None = None) -> EncodedInputs:
        """Encode the inputs, which do not change from step to step."""
        num_nodes = inputs["node_scalar"].shape[-2]
        encoded = self._encode(self.input_encoder, inputs, num_nodes, node_mask)
        nodes = encoded.nodes
        assert nodes is not None
        batch, size = nodes.shape[0], self.hidden_size
        edges = nodes.new_zeros(batch, num_nodes, num_nodes, size) if encoded.edges is None else encoded.edges
        globals = nodes.new_zeros(batch, size) if encoded.globals is None else encoded.globals
        adjacency = None
        if self._needs_adjacency:
            adjacency = torch.eye(num_nodes, dtype=torch.bool, device=nodes.device).expand(batch, -1, -1)
            adjacency = adjacency if encoded.adjacency is None else adjacency | encoded.adjacency
        return EncodedInputs(GraphState(nodes, edges, globals), adjacency, node_mask)

    def initial_carry(self, inputs: EncodedInputs) -> Carry:
        """The carry before the first step, all zeros."""
        nodes, edges, globals = inputs.features
        assert edges is not None
        assert globals is not None
        batch, num_nodes, _ = nodes.shape
        hidden = GraphState(
            torch.zeros_like(nodes),
            torch.zeros_like(edges) if self.processor.returns_edges else None,
            torch.zeros_like(globals) if self.processor.returns_globals else None,
        )
        dtype = torch.promote_types(nodes.dtype, torch.float32)

        def zeros(groups: tuple[FeatureGroup, ...]) -> Packed:
            return {group.key: nodes.new_zeros(batch, *group.logits_shape(num_nodes), dtype=dtype) for group in groups}

        hint_losses = {group.key: nodes.new_zeros(len(group.names), dtype=dtype) for group in self.hints}
        return Carry(hidden, zeros(self.hints), zeros(self.outputs), hint_losses)

    def step(self, inputs: EncodedInputs, hints: Packed, hidden: GraphState) -> tuple[Packed, Packed, GraphState]:
        """One step of the algorithm: logits of the next hints and of the outputs, and the new hidden state."""
        features, adjacency = inputs.features, inputs.adjacency
        if self.hint_encoder is not None:
            num_nodes = features.nodes.shape[-2]
            encoded = self._encode(self.hint_encoder, hints, num_nodes, inputs.node_mask)
            features = GraphState(
                _add(features.nodes, encoded.nodes),
                _add(features.edges, encoded.edges),
                _add(features.globals, encoded.globals),
            )
            if adjacency is not None and encoded.adjacency is not None:
                adjacency = adjacency | encoded.adjacency
        if self.bound_pointers is not None:
            features = self.bound_pointers(features, hints)
        new = self.processor(features, hidden, adjacency, inputs.node_mask)
        dtype = hidden.nodes.dtype
        new = GraphState(new.nodes.to(dtype), _to(new.edges, dtype), _to(new.globals, dtype))
        hint_logits, output_logits = self.decoders(
            (features.nodes, hidden.nodes, new.nodes),
            _parts(features.edges, hidden.edges, new.edges),
            _parts(features.globals, hidden.globals, new.globals),
            adjacency,
            inputs.node_mask,
        )
        return hint_logits, output_logits, new if self.processor.returns_edges else new._replace(edges=None)

    def advance(
        self, inputs: EncodedInputs, carry: Carry, hints: Packed, teacher_forced: Tensor, keeps_output: Tensor
    ) -> Carry:
        """One step of an evaluation, from carry to carry. `teacher_forced` examples [B] see `hints`, others the carried
        predictions."""
        return self._advance(inputs, carry, hints, teacher_forced, keeps_output, self.feeding(training=False))

    def feeding(self, *, training: bool) -> Feeding:
        """The form in which predicted hints are fed back, in training or in evaluation."""
        return feeding_of(self.hint_feedback, training=training)

    def learns_through(self, group: FeatureGroup) -> bool:
        """Whether gradients of a training step flow back through the hints of a group into the step before."""
        return passes_gradients(group, self.feeding(training=True))

    def _advance(
        self,
        inputs: EncodedInputs,
        carry: Carry,
        hints: Packed,
        teacher_forced: Tensor,
        keeps_output: Tensor,
        feeding: Feeding,
    ) -> Carry:
        seen: Packed = {}
        if self.hint_encoder is not None:
            seen = feed_hints(self.hints, hints, carry.hints, teacher_forced, feeding)
        hint_logits, output_logits, hidden = self.step(inputs, seen, carry.hidden)
        return Carry(hidden, hint_logits, keep(keeps_output, output_logits, carry.outputs), carry.hint_losses)

    def training_step(self, inputs: EncodedInputs, carry: Carry, step: Step) -> Carry:
        """`advance` in training, which also adds the hint losses of the step."""
        feeding = self.feeding(training=True)
        carried = self._advance(inputs, carry, step.hints, step.teacher_forced, step.keeps_output, feeding)
        added = self.add_hint_losses(carry.hint_losses, carried.hints, step, inputs.node_mask)
        # Without gradients from the next step, no activations are kept for them.
        learnt = {group.key for group in self.hints if self.learns_through(group)}
        kept = {key: logits if key in learnt else logits.detach() for key, logits in carried.hints.items()}
        return Carry(carried.hidden, kept, carried.outputs, added)

    def add_hint_losses(self, so_far: Packed, logits: Packed, step: Step, node_mask: Tensor | None = None) -> Packed:
        """The losses of all hints, [F] by key, with those of this step added."""
        added: Packed = {}
        for group in self.hints:
            key = group.key
            added[key] = so_far[key] + hint_losses(
                group, logits[key], step.next_hints[key], step.is_target, step.totals[key], node_mask
            )
        return added

    def losses(self, batch: Batch, carry: Carry) -> Losses:
        """The loss after the last step: output losses, and the sum of hint losses over the steps."""
        of_outputs: Packed = {}
        for group in self.outputs:
            logits = carry.outputs[group.key]
            if group.is_permutation and batch.noise is not None:
                logits = logits + batch.noise
            of_outputs[group.key] = output_losses(group, logits, batch.outputs[group.key], batch.node_mask)
        total = torch.stack([losses.sum() for losses in (*of_outputs.values(), *carry.hint_losses.values())]).sum()
        return Losses(total, {**unpack(self.outputs, of_outputs), **unpack(self.hints, carry.hint_losses)})

    def loss(self, batch: Batch, carry: Carry) -> Tensor:
        """The total of `losses` alone."""
        return self.losses(batch, carry).total

    def predict(
        self,
        inputs: Packed,
        first_hints: Packed,
        lengths: Tensor,
        node_mask: Tensor | None = None,
        *,
        num_steps: int | None = None,
        keep_hints: bool = False,
    ) -> Prediction:
        """Run the algorithm on the network's own hints, from the true first ones.

        Memory does not grow with the number of steps, unless `keep_hints` asks for the logits of every step.

        Args:
            inputs: packed inputs.
            first_hints: packed hints of step 0, [B, ...].
            lengths: number of hints of each example, [B]; the outputs are those of step max(0, length - 2).
            node_mask: bool [B, N].
            num_steps: by default that of the longest example.
            keep_hints: also return the logits of all hints.
        """
        check_prediction(self, inputs, first_hints, lengths, node_mask)
        check_flag(keep_hints=keep_hints)
        if num_steps is not None:
            check_positive(num_steps=num_steps)
        if num_steps is None:
            num_steps = max(1, int(lengths.max()) - 1)
        encoded = self.encode_inputs(present_features(self.inputs, inputs, node_mask), node_mask)
        first_hints = present_features(self.hints, first_hints, node_mask)
        carry = self.initial_carry(encoded)
        kept: list[dict[str, Tensor]] = []
        for step in range(num_steps):
            is_first = torch.full_like(lengths, step == 0, dtype=torch.bool)
            carry = self.advance(encoded, carry, first_hints, is_first, (lengths > step + 1) | is_first)
            if keep_hints:
                kept.append(unpack(self.hints, carry.hints))
        hints = {name: torch.stack([hint[name] for hint in kept]) for name in kept[0]} if keep_hints else None
        return Prediction(unpack(self.outputs, carry.outputs), hints)

    @property
    def _needs_adjacency(self) -> bool:
        return self.processor.uses_adjacency or self.processor.masks_decoders

    def _encode(self, encoder: Encoder, features: Packed, num_nodes: int, node_mask: Tensor | None) -> EncodedFeatures:
        encoded = encoder(features, num_nodes, node_mask, need_adjacency=self._needs_adjacency)
        if self.activation_dtype is None:
            return encoded
        nodes, edges, globals = (_to(part, self.activation_dtype) for part in encoded[:3])
        return EncodedFeatures(nodes, edges, globals, encoded.adjacency)


def find_spec(algorithm: str | Spec) -> Spec:
    """The spec of an algorithm by its name, or the given one."""
    if not isinstance(algorithm, str):
        check_spec("algorithm", algorithm)
        return algorithm
    if algorithm not in SPECS:
        raise ValueError(f"there is no algorithm {algorithm!r}; the algorithms are {', '.join(SPECS)}")
    return SPECS[algorithm]


def _to(vectors: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if vectors is None else vectors.to(dtype)


def _add(vectors: Tensor | None, more: Tensor | None) -> Tensor:
    assert vectors is not None
    return vectors if more is None else vectors + more


def _parts(features: Tensor | None, hidden: Tensor | None, new: Tensor | None) -> Parts:
    """The parts that decoders read: those that are not None, features alone if the processor has no such vectors."""
    assert features is not None
    return tuple(part for part in (features, hidden, new) if part is not None)
