"""One training step of a whole fleet: forward through the trajectory, backward, Adam; on CUDA one graph launch."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only
from torch.utils.checkpoint import checkpoint

from relational_transformer.clrs.spec import Type
from relational_transformer.reasoning.features import Batch
from relational_transformer.reasoning.network import Carry, EncodedInputs, Network
from relational_transformer.reasoning.steps import Schedule, Step, make_steps

from .adam import Adam
from .around_layers import AroundLayers
from .data import Draw, Split, length_buckets
from .fleet import Fleet
from .fleet_methods import FleetMethods
from .memory import is_too_much_to_keep, saved_bytes
from .precision import Precision, for_computing
from .recording import record


class Engine:
    """Runs training steps that were drawn beforehand (`load`, then `step` for each of them).

    Nothing here waits for the device: what a step needs to know on the host, its number of hints, comes from the draw.

    Attributes:
        losses: the loss of every seed summed over the steps since `load`, [S].
        finite: whether every loss of a seed so far was a finite number, bool [S].
        recompute: whether steps of the trajectory are recomputed in the backward pass; None until the first step has
            decided.
    """

    def __init__(
        self, network: Network, fleet: Fleet, split: Split, *, learning_rate: float, batch_size: int,
        precision: Precision, compiled: bool, recompute: bool | None = None,
    ) -> None:  # fmt: skip
        self.network, self.fleet, self.split = network, fleet, split
        self.precision: Precision = precision
        self.device = fleet.values.device
        self.adam = Adam(fleet, network, learning_rate, compiled=compiled)
        self.buckets = length_buckets(split.host_lengths, fleet.num_seeds * batch_size)
        self.batch_size = batch_size
        seeds = fleet.num_seeds
        self.position = torch.zeros(1, dtype=torch.long, device=self.device)
        self.losses = torch.zeros(seeds, device=self.device, dtype=fleet.values.dtype)
        self.finite = torch.ones(seeds, dtype=torch.bool, device=self.device)
        self.index = torch.zeros(0, seeds, batch_size, dtype=torch.long, device=self.device)
        self.teacher_forced = torch.zeros(0)
        self.hints_of_step: list[int] = []
        self._graphs: dict[int, Callable[[], None]] = {}
        self.recompute = recompute
        self._methods = FleetMethods(network, fleet, self.device, compiled)
        self._around = AroundLayers(self._methods, network, split.num_nodes, precision)

    def share_compiled(self, other: "Engine") -> None:
        """Use what another engine of the same shapes compiles, instead of compiling it again."""
        self._methods.share(other._methods)
        self.adam.update = other.adam.update

    @property
    def layers_are_kernels(self) -> bool:
        """Whether every layer is one fused kernel, forward and backward."""
        return self._around.fits and not self.recompute

    def load(self, drawn: Draw) -> None:
        """Take what the next steps are made of."""
        index = torch.from_numpy(drawn.index)
        forced = torch.from_numpy(drawn.teacher_forced)
        longest = self.split.host_lengths[drawn.index].max(axis=(1, 2))
        self.hints_of_step = [min(bucket for bucket in self.buckets if bucket >= need) for need in longest]
        if self.device.type != "cuda":
            self.index, self.teacher_forced = index, forced
        elif len(self.index) != len(index):
            self._graphs.clear()  # they hold the addresses of the tensors they were captured with
            self.index, self.teacher_forced = index.to(self.device), forced.to(self.device)
        else:
            self.index.copy_(index.pin_memory(), non_blocking=True)
            self.teacher_forced.copy_(forced.pin_memory(), non_blocking=True)
        self.position.zero_()
        self.losses.zero_()

    def step(self, number: int) -> None:
        """Training step `number` of those loaded; they must be made in order."""
        num_hints = self.hints_of_step[number]
        if self.recompute is None:
            self.recompute = self._must_recompute()
        if self.device.type != "cuda":
            self._train(num_hints)
            return
        if num_hints not in self._graphs:
            self._graphs[num_hints] = self._capture(num_hints)
        self._graphs[num_hints]()

    def loss(self, values: Tensor, batch: Batch, teacher_forced: Tensor) -> Tensor:
        """The loss of every seed, [S]; batch [S, B, ...] with hints [T, S, B, ...], teacher_forced [T - 1, S, B].

        `values` is a vector like `fleet.values`. Steps take it whole and not by name, so that over the steps one
        gradient is added up and not a hundred.
        """
        values = for_computing(values, self.precision)
        steps = self._steps(batch, teacher_forced)
        if self.layers_are_kernels:
            carry = self._around.run(self._around.begin(values), batch.inputs, steps)
        else:
            encoded = self._methods("encode_inputs", values, batch.inputs)
            carry = self._like_later_ones(self._methods("initial_carry", values, encoded))
            for step in steps:
                carry = self._advance(values, encoded, carry, step)
        return self._methods("losses", None, batch._replace(hints={}), carry).total

    def _steps(self, batch: Batch, teacher_forced: Tensor) -> list[Step]:
        """The steps of a batch for all seeds, every tensor contiguous: strides that differ with the number of steps
        would be compiled for one by one."""
        by_seed = batch._replace(hints={key: hint.transpose(0, 1) for key, hint in batch.hints.items()})
        schedule = self._methods("schedule", None, by_seed, teacher_forced.transpose(0, 1))
        forced, is_target, keeps_output = (tensor.transpose(0, 1) for tensor in schedule[:3])
        return make_steps(batch.hints, Schedule(forced, is_target, keeps_output, schedule.totals))

    def _like_later_ones(self, carry: Carry) -> Carry:
        """The first carry with gradients where later ones have them, so that to the compiler all steps are alike."""
        marked = tree_map_only(Tensor, lambda leaf: leaf.contiguous().requires_grad_(), carry._replace(hints={}))
        learnt = {group.key for group in self.network.hints if group.type == Type.SCALAR}
        hints = {key: hint.contiguous().requires_grad_(key in learnt) for key, hint in carry.hints.items()}
        return marked._replace(hints=hints)

    def _advance(self, values: Tensor, encoded: EncodedInputs, carry: Carry, step: Step) -> Carry:
        if not self.recompute:
            return self._methods("training_step", values, encoded, carry, step)
        return checkpoint(
            self._methods, "training_step", values, encoded, carry, step,
            use_reentrant=False, preserve_rng_state=False, determinism_check="none",
        )  # fmt: skip

    def _train(self, num_hints: int) -> None:
        losses, values = self._forward(num_hints)
        (gradient,) = torch.autograd.grad(losses.sum(), values)
        self.adam.step(gradient)
        losses = losses.detach()
        self.losses += losses
        self.finite &= losses.isfinite()
        self.position += 1

    def _forward(self, num_hints: int) -> tuple[Tensor, Tensor]:
        """Losses [S] of the next step that was loaded, and the parameters that they can be differentiated by."""
        index = self.index.index_select(0, self.position).squeeze(0)
        forced = self.teacher_forced.index_select(0, self.position).squeeze(0)[: max(0, num_hints - 1)]
        # A new leaf every time: autograd ties a leaf to the stream of its first use, a graph is captured on another.
        values = self.fleet.values.detach().requires_grad_()
        return self.loss(values, self.split.gather(index, num_hints), forced), values

    def _must_recompute(self) -> bool:
        """Whether the activations of the longest trajectories would take too much of the memory that is free."""
        most = max(self.buckets)
        if most <= 3:
            return False
        sizes = [saved_bytes(lambda num_hints=num_hints: self._forward(num_hints)) for num_hints in (2, 3)]
        sizes = [size + self._around.kept_bytes(number, self.batch_size) for number, size in enumerate(sizes, 1)]
        return is_too_much_to_keep(sizes[0] + (sizes[1] - sizes[0]) * (most - 2), self.device)

    def _capture(self, num_hints: int) -> Callable[[], None]:
        """Record one training step on trajectories of `num_hints` hints as a CUDA graph."""
        return record(lambda: self._train(num_hints), self._state(), self.device, pool=self._pool)

    @cached_property
    def _pool(self) -> Any:
        """Graphs never run at the same time, so they share their memory."""
        return torch.cuda.graph_pool_handle()

    def _state(self) -> dict[str, Tensor]:
        return {**self.fleet.state(), "position": self.position, "losses": self.losses, "finite": self.finite}
