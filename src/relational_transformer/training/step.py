"""One training step of a whole fleet: forward through the trajectory, backward, Adam. On CUDA it is one launch of a
graph."""

from collections.abc import Sequence
from copy import copy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.fleet import Fleet
from relational_transformer.fleet.graphs import Graphs, check_room, is_too_much_to_keep, recomputed, saved_bytes
from relational_transformer.fleet.pieces import Pieces, over_seeds
from relational_transformer.fleet.precision import Precision, for_computing
from relational_transformer.reasoning.encoders import ColumnEncoder
from relational_transformer.reasoning.features import Batch, Packed
from relational_transformer.reasoning.network import Carry, EncodedInputs, Network
from relational_transformer.reasoning.permutations import gumbel
from relational_transformer.reasoning.steps import Schedule, Step, aligned_rows, make_steps
from relational_transformer.runs.steps import Steps
from relational_transformer.runs.task import Start

from .config import TrainConfig
from .data import Draw, Split, length_buckets, outputs_of, take, to_device

if TYPE_CHECKING:
    from .fused_step import FusedSteps

HINTS_OF_REHEARSAL = 3
"""Two steps, so that one follows another: to the compiler all steps after the first are alike."""


class TrainingStep(Steps):
    """Runs training steps whose random numbers were drawn beforehand: `load` them, then `make` each step.

    There are two strategies. Where every layer is one fused kernel, compiled functions run between the layers
    (`FusedSteps`). Elsewhere each step of the algorithm is one compiled function, which is recomputed in the backward
    pass if memory is short. The host knows the number of hints of a step from its random numbers. `forces` says whether
    an example may see true hints after its first step.
    """

    def __init__(
        self, network: Network, fleet: Fleet, split: Split, adam: Adam, *, batch_size: int, precision: Precision,
        compiled: bool, forces: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(fleet, fleet.values.dtype)
        self.network, self.split, self.adam = network, split, adam
        self.precision: Precision = precision
        self.buckets = length_buckets(split.host_lengths, fleet.num_seeds * batch_size)
        self.batch_size = batch_size
        seeds = fleet.num_seeds
        self._of_each_seed = torch.ones_like(self.losses)
        self.index = torch.zeros(0, seeds, batch_size, dtype=torch.long, device=self.device)
        self.teacher_forced = torch.zeros(0)
        self.uniform: Tensor | None = None
        self.hints_of_step: list[int] = []
        self._has_begun = False
        pieces = Pieces(self.device, compiled=compiled)
        self._schedule = over_seeds(network, "schedule")
        self._prepared, self._tally = pieces.compile(self._prepare), pieces.compile(tally)
        self._encode = pieces.of_vector(network, "encode_inputs", fleet.shapes)
        self._start = pieces.plain_of_vector(network, "initial_carry", fleet.shapes)
        self._step = pieces.of_vector(network, "training_step", fleet.shapes)
        self._loss = pieces.of(network, "loss")
        self._fused = fused_steps(pieces, network, fleet, split.num_nodes, precision, forces=forces)

    @classmethod
    def of_run(cls, config: TrainConfig, start: Start, split: Split) -> Self:
        """Training steps on the examples of a split, as a configuration says."""
        return cls(
            start.model, start.fleet, split, start.adam,
            batch_size=config.settings.batch_size, precision=config.precision, compiled=start.compiled,
            forces=config.protocol.teacher_forcing > 0,
        )  # fmt: skip

    def of_size(self, split: Split, buckets: Sequence[int]) -> Self:
        """Training steps on examples of another size, padded to these numbers of hints. They share the compiled
        functions and all that a step changes, except the position among the loaded steps."""
        other = copy(self)
        other.buckets = list(buckets)
        other.position = torch.zeros_like(self.position)
        other.index = self.index[:0].clone()
        other.graphs = Graphs(self.device, other.changed, beside=self.graphs)
        other._fused = self._fused and self._fused.of_size(split.num_nodes)
        other.split = split
        return other

    def use(self, split: Split, num_hints: int) -> None:
        """Train on these examples from now on, padded to `num_hints` hints. Their tensors are those of the examples
        before them, except if one example has more hints than any before: then all graphs are captured again."""
        if num_hints > max(self.buckets):
            self.buckets.append(num_hints)
            self.graphs.forget()
        self.split = split

    @property
    def layers_are_kernels(self) -> bool:
        """Whether every layer is one fused kernel, forward and backward."""
        return self._fused is not None and self._fused.fits and not self.recompute

    @property
    def are_recorded(self) -> bool:
        """Whether the graphs of all steps are captured."""
        return self.graphs.are_recorded

    @property
    def must_capture(self) -> bool:
        return self.device.type == "cuda" and not self.are_recorded

    def load(self, drawn: Draw, position: int = 0) -> None:
        """Load the random numbers of the next steps; step number `position` of them is the next one."""
        longest = self.split.host_lengths[drawn.index].max(axis=(1, 2))
        self.hints_of_step = [min(bucket for bucket in self.buckets if bucket >= need) for need in longest]
        self.index = self._placed(self.index, drawn.index)
        self.teacher_forced = self._placed(self.teacher_forced, drawn.teacher_forced)
        if drawn.uniform is not None:
            self.uniform = self._placed(self.uniform, drawn.uniform)
        self.position.fill_(position)

    def _placed(self, tensor: Tensor | None, array: np.ndarray) -> Tensor:
        """The random numbers of some steps on the device. They are written into the tensor of earlier ones if it is
        large enough, so that nothing is captured or compiled again."""
        data, number = torch.from_numpy(array), len(array)
        if tensor is None or number > len(tensor) or tensor.shape[1:] != data.shape[1:]:
            self.graphs.forget()
            return data.to(self.device, copy=True)
        tensor[:number].copy_(to_device(data, self.device))
        return tensor

    def decide(self) -> None:
        """Decide whether to recompute, if that is not decided yet."""
        if self.recompute is None:
            self.recompute = is_too_much_to_keep(self.bytes_to_keep, self.device)

    def begin(self) -> None:
        """Decide whether to recompute, and check that there is memory for it; both once."""
        self.decide()
        if not self._has_begun and self.device.type == "cuda" and not self.recompute:
            check_room(self.bytes_to_keep, self.device)
        self._has_begun = True

    def record(self) -> None:
        """On CUDA, capture all graphs that are missing."""
        if not self.are_recorded:  # the longest first, whose memory the others reuse
            for bucket in reversed(self.buckets):
                self.graphs.record(bucket, partial(self._train, bucket))

    def rehearse(self) -> None:
        """Call all that training steps are made of, which compiles it, on few hints and in little memory."""
        self.decide()
        self._train(min(HINTS_OF_REHEARSAL, max(self.buckets)))

    def make(self, number: int) -> None:
        self.begin()
        self.record()
        self.run(number)

    def run(self, number: int) -> None:
        """The same, once `begin` and `record` were called."""
        num_hints = self.hints_of_step[number]
        self.graphs.run(num_hints, partial(self._train, num_hints))

    def loss(self, values: Tensor, batch: Batch, steps: list[Step]) -> Tensor:
        """The loss of every seed, [S], on a batch [S, B, ...] and its steps.

        `values` is a vector like `fleet.values`.
        """
        if self._fused is not None and self.layers_are_kernels:
            return self._fused.run(self._fused.begin(for_computing(values, self.precision)), batch, steps)
        carry = self._run(values, batch.inputs, steps)
        return self._loss({}, outputs_of(batch), carry._replace(hints={}))

    def _run(self, values: Tensor, inputs: Packed, steps: list[Step]) -> Carry:
        """The carry after all steps.

        Steps take the parameters as one vector, so that autograd sums one gradient over the steps and not one for each
        parameter.
        """
        values = for_computing(values, self.precision)
        encoded = self._encode(values, inputs)
        carry = requiring_gradients(self.network, self._start(values, encoded))
        for step in steps:
            carry = self._advance(values, encoded, carry, step)
        return carry

    def _advance(self, values: Tensor, encoded: EncodedInputs, carry: Carry, step: Step) -> Carry:
        if not self.recompute:
            return self._step(values, encoded, carry, step)
        return recomputed(self._step, values, encoded, carry, step)

    def _train(self, num_hints: int) -> None:
        losses, values = self._forward(num_hints)
        (gradient,) = torch.autograd.grad(losses, values, self._of_each_seed)
        self.adam.step(gradient)
        self._tally(self.losses, self.finite, self.position, losses.detach())

    def _forward(self, num_hints: int) -> tuple[Tensor, Tensor]:
        """The losses [S] of the next loaded step, and the leaf tensor of parameters to differentiate by."""
        drawn = self.index, self.teacher_forced, self.position, self.uniform
        batch, schedule = self._prepared(self.split.examples, *drawn)
        forced, is_target, keeps_output = (tensor[: max(1, num_hints - 1)] for tensor in schedule[:3])
        hints = {key: hint[:num_hints] for key, hint in batch.hints.items()}
        values = self.fleet.leaf()
        steps = make_steps(hints, Schedule(forced, is_target, keeps_output, schedule.totals))
        return self.loss(values, batch, steps), values

    def _prepare(
        self, examples: Batch, index: Tensor, teacher_forced: Tensor, position: Tensor, uniform: Tensor | None
    ) -> tuple[Batch, Schedule]:
        """Batch and schedule of the next step, padded to the longest trajectories, so that there is one function to
        compile. Padding enters no loss. All rows are aligned, so that all steps share one compiled function."""
        batch = take(examples, index.index_select(0, position).squeeze(0))
        forced = teacher_forced.index_select(0, position).squeeze(0)
        by_seed = batch._replace(hints={key: hint.transpose(0, 1) for key, hint in batch.hints.items()})
        schedule = self._schedule({}, by_seed, forced.transpose(0, 1))
        forced, is_target, keeps_output = (aligned_rows(tensor.transpose(0, 1)) for tensor in schedule[:3])
        hints = {key: aligned_rows(hint) for key, hint in batch.hints.items()}
        noise = None if uniform is None else gumbel(uniform.index_select(0, position).squeeze(0))
        aligned = Batch(batch.inputs, hints, batch.outputs, batch.lengths, noise=noise)
        return aligned, Schedule(forced, is_target, keeps_output, schedule.totals)

    @cached_property
    def bytes_to_keep(self) -> float:
        """The bytes that the longest trajectories keep for the backward pass, extrapolated from short ones."""
        most = max(self.buckets)
        if most <= HINTS_OF_REHEARSAL:
            return 0.0
        sizes = [saved_bytes(lambda num_hints=num_hints: self._forward(num_hints)) for num_hints in (2, 3)]
        if self._fused is not None:
            sizes = [size + self._fused.kept_bytes(number, self.batch_size) for number, size in enumerate(sizes, 1)]
        return sizes[0] + (sizes[1] - sizes[0]) * (most - 2)


def fused_steps(
    pieces: Pieces, network: Network, fleet: Fleet, num_nodes: int, precision: Precision, *, forces: bool
) -> "FusedSteps | None":
    """The training steps by fused kernels, which compute in bfloat16; None for a network that has none."""
    if precision != "bf16":
        return None
    from .fused_step import FusedSteps, can_fuse  # here, because most runs on a CPU need no kernels

    return FusedSteps(pieces, network, fleet, num_nodes, forces=forces) if can_fuse(network) else None


def linears_of_encoders(network: nn.Module) -> dict[str, Tensor]:
    """The weights of encoders by name, with the number of the Linear that each of their rows belongs to.

    The published training skips a Linear and its moments in a step in which its whole gradient is exactly zero. That
    happens in encoders, where a feature is zero in a whole batch.
    """
    found = {}
    for name, encoder in network.named_modules():
        if isinstance(encoder, ColumnEncoder):
            linear_of_row = torch.zeros(len(encoder.weight), dtype=torch.long)
            for number, linear in enumerate(encoder.linears):
                linear_of_row[linear.rows] = number
            found[f"{name}.weight"] = linear_of_row
    return found


def requiring_gradients(network: Network, carry: Carry) -> Carry:
    """The first carry, with gradients required wherever later carries have them, so that all steps share one compiled
    function."""
    marked = tree_map_only(Tensor, lambda leaf: leaf.contiguous().requires_grad_(), carry._replace(hints={}))
    learnt = {group.key for group in network.hints if network.learns_through(group)}
    hints = {key: hint.contiguous().requires_grad_(key in learnt) for key, hint in carry.hints.items()}
    return marked._replace(hints=hints)


def tally(total: Tensor, finite: Tensor, position: Tensor, losses: Tensor) -> None:
    """Add the losses [S] of a step to `total`, update `finite`, and advance `position`; all in place."""
    total += losses
    finite &= losses.isfinite()
    position += 1
