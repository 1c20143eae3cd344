"""Runs the steps of a trajectory, with what they share computed once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from relational_transformer.reasoning.features import Packed
from relational_transformer.reasoning.network import Carry, Network
from relational_transformer.reasoning.steps import Step

from ..compiling import compiled_for
from ..fleet_methods import FleetMethods
from ..over_seeds import over_seeds
from ..precision import Precision, for_computing
from .gradients import side_by_side, weight_gradients
from .splitting import Pieces, split
from .tracing import trace


class HoistedTrajectory:
    """Runs the steps of a trajectory as `Network.training_step` would.

    Of a step all that depends on parameters and inputs alone is computed once. So are the gradients of the weights of
    Linears, and of all else that steps share and add: each step leaves what was multiplied, and the gradients of the
    products; a weight's gradient is one product of those of all steps. A step has fewer launches, and adds up the
    gradients of few parameters instead of all.
    """

    def __init__(self, methods: FleetMethods, network: Network, precision: Precision) -> None:
        self.methods, self.network = methods, network
        self.precision: Precision = precision
        self._plans: dict[str, _Plan] = {}  # one, once it is known what tensors look like

    def share(self, other: "HoistedTrajectory") -> None:
        """Use what another of the same shapes traces and compiles."""
        self._plans = other._plans

    def run(self, values: Tensor, inputs: Packed, steps: list[Step], like_later_ones: Callable[[Carry], Carry]) -> Carry:
        """The carry after all steps, of all parameters and of inputs [S, B, ...]."""
        if not self._plans:
            self._plans["plan"] = self._plan(values, inputs, steps[0], like_later_ones)
        plan = self._plans["plan"]
        once = _Once(plan, values.detach(), [*tensors_of(inputs), *tensors_of(steps[0].totals)], self.precision)
        shared = _Share.apply(once, len(steps), values)
        others, taps = shared[: plan.pieces.has_others], shared[plan.pieces.has_others :]
        carry = like_later_ones(pytree.tree_map_only(Tensor, Tensor.detach, plan.start))
        for number, step in enumerate(steps):
            of_step = taps[number * len(plan.pieces.taps) : (number + 1) * len(plan.pieces.taps)]
            changing = tensors_of((carry, step._replace(totals={})))
            results = plan.step(*once.weights, *others, *once.values, *of_step, *changing)
            carry = with_tensors(carry, results)
            once.rows.append(results[len(results) - len(plan.pieces.rows) :])
        return carry

    def kept_bytes(self, num_steps: int) -> int:
        """What so many steps keep for the gradients of the weights: as each leaves it, and side by side."""
        pieces = self._plans["plan"].pieces if self._plans else None
        kept = (*pieces.rows, *pieces.taps) if pieces else ()
        return 2 * num_steps * sum(tensor.numel() * tensor.element_size() for tensor in kept)

    def _plan(
        self, values: Tensor, inputs: Packed, step: Step, like_later_ones: Callable[[Carry], Carry]
    ) -> "_Plan":
        encode, begin, advance = (
            over_seeds(self.network, method, keep_axis=True)
            for method in ("encode_inputs", "initial_carry", "training_step")
        )
        fleet, compiled = self.methods.fleet, self.methods.compiled
        computed = for_computing(values.detach(), self.precision).requires_grad_()
        with torch.no_grad():
            parameters = fleet.split(computed)
            start = begin(parameters, encode(parameters, inputs))
        fixed = (computed, inputs, step.totals)
        arguments = (*fixed, like_later_ones(start), step._replace(totals={}))

        def whole_step(*tensors: Tensor) -> list[Tensor]:
            values, inputs, totals, carry, step = with_tensors(arguments, tensors)
            parameters = fleet.split(values)
            return tensors_of(advance(parameters, encode(parameters, inputs), carry, step._replace(totals=totals)))

        num_fixed = len(tensors_of(fixed))
        pieces = split(trace(whole_step, tensors_of(arguments), compiled), num_fixed)
        num_learnt = pieces.num_weights + pieces.has_others

        def learnt_of(values: Tensor, *inputs: Tensor) -> Sequence[Tensor]:
            return pieces.once(for_computing(values, self.precision), *inputs)[:num_learnt]

        def backward(values: Tensor, *rest: Tensor) -> Sequence[Tensor]:
            with torch.enable_grad():
                leaf = values.detach().requires_grad_()
                results = zip(learnt_of(leaf, *rest[: num_fixed - 1]), rest[num_fixed - 1 :], strict=True)
                learnt = [(result, gradient) for result, gradient in results if result.requires_grad]
                return torch.autograd.grad([one for one, _ in learnt], leaf, [gradient for _, gradient in learnt])

        others = tensors_of(fixed)[1:]
        with torch.no_grad():
            learnt = learnt_of(values.detach(), *others)
        weights, vectors = learnt[: pieces.num_weights], learnt[pieces.num_weights :]
        kept = ([values.new_zeros(one.shape, dtype=one.dtype) for one in (tensors)] for tensors in (pieces.rows, pieces.taps))
        gradients = weight_gradients(pieces.terms, weights, *(side_by_side([one]) for one in kept))
        traced = trace(backward, [values.detach(), *others, *gradients, *vectors], compiled)
        compile_ = (lambda graph: compiled_for(graph, self.methods.device)) if compiled else (lambda graph: graph)
        return _Plan(pieces, start, compile_(pieces.once), compile_(pieces.step), compile_(traced))


@dataclass(frozen=True)
class _Plan:
    """What is run: a step in `pieces`; the carry before the first one; what the pieces are compiled to, and the
    backward pass of the first of them."""

    pieces: Pieces
    start: Carry
    once: Callable[..., Sequence[Tensor]]
    step: Callable[..., Sequence[Tensor]]
    backward: Callable[..., Sequence[Tensor]]


class _Once:
    """What the steps of one trajectory share, and what they leave behind."""

    def __init__(self, plan: _Plan, values: Tensor, inputs: list[Tensor], precision: Precision) -> None:
        self.plan, self.parameters, self.inputs = plan, values, inputs
        with torch.no_grad():
            results = plan.once(for_computing(values, precision), *inputs)
        pieces = plan.pieces
        self.weights = results[: pieces.num_weights]
        self.others = results[pieces.num_weights : pieces.num_weights + pieces.has_others]
        self.values = results[pieces.num_weights + pieces.has_others :]
        self.rows: list[Sequence[Tensor]] = []

    def backward(self, others: Sequence[Tensor], taps: list[Sequence[Tensor]]) -> Tensor:
        """The gradient of all parameters, given those of the others and of the taps of each step."""
        rows = side_by_side(self.rows) if self.rows[0] else []
        gradients = side_by_side(taps) if taps[0] else []
        weights = weight_gradients(self.plan.pieces.terms, self.weights, rows, gradients)
        (gradient,) = self.plan.backward(self.parameters, *self.inputs, *weights, *others)
        return gradient


class _Share(torch.autograd.Function):
    """Others and taps of all steps, whose gradients become that of the parameters in one go."""

    @staticmethod
    def forward(ctx: Any, once: _Once, num_steps: int, values: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.once = once
        taps = once.plan.pieces.taps
        zeros = {dtype: values.new_zeros((), dtype=dtype) for dtype in {tap.dtype for tap in taps}}
        of_steps = [zeros[tap.dtype].expand(tap.shape) for _ in range(num_steps) for tap in taps]
        return (*(other.view_as(other) for other in once.others), *of_steps)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        num_others, num_taps = ctx.once.plan.pieces.has_others, len(ctx.once.plan.pieces.taps)
        others, taps = gradients[:num_others], gradients[num_others:]
        steps = [taps[start : start + num_taps] for start in range(0, len(taps), num_taps)]
        return None, None, ctx.once.backward(others, steps)


def tensors_of(tree: Any) -> list[Tensor]:
    """All tensors in nested dicts, tuples and named tuples, in order."""
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]


def with_tensors(tree: Any, tensors: Sequence[Tensor]) -> Any:
    """The same with other tensors, of which there may be more than are needed."""
    remaining = iter(tensors)
    return pytree.tree_map_only(Tensor, lambda _: next(remaining), tree)
