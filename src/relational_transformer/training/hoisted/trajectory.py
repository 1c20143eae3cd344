"""Runs the steps of a trajectory, with what they share computed once."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from relational_transformer.reasoning.features import Packed
from relational_transformer.reasoning.network import Carry, Network
from relational_transformer.reasoning.steps import Step

from ..first_carry import like_later_ones
from ..fleet_methods import FleetMethods
from ..precision import Precision, for_computing
from .gradients import side_by_side, weight_gradients
from .plan import Plan, make_plan, tensors_of, with_tensors


class HoistedTrajectory:
    """Runs the steps of a trajectory as `Network.training_step` would.

    Of a step all that depends on parameters and inputs alone is computed once. So are the gradients of the weights of
    Linears, and of all else that steps share and add: each step leaves behind what was multiplied and the gradient of
    what came out, and a weight's gradient is one product of those of all steps. So a step has fewer launches, and what
    is added up over the steps are the gradients of few parameters or none.
    """

    def __init__(self, methods: FleetMethods, network: Network, precision: Precision) -> None:
        self.methods, self.network = methods, network
        self.precision: Precision = precision
        self._plans: list[Plan] = []  # one, when the first trajectory has come

    def share(self, other: "HoistedTrajectory") -> None:
        """Use what another of the same shapes traces and compiles."""
        self._plans = other._plans

    def run(self, values: Tensor, inputs: Packed, steps: list[Step]) -> Carry:
        """The carry after all steps, of parameters `values`, a vector like `fleet.values`, and inputs [S, B, ...]."""
        if not self._plans:
            self._plans.append(make_plan(self.methods, self.network, self.precision, values, inputs, steps[0]))
        (plan,) = self._plans
        shared = _Shared(plan, values.detach(), tensors_of((inputs, steps[0].totals)), self.precision)
        learnt = _Share.apply(shared, len(steps), values)
        others, taps = learnt[: plan.pieces.has_others], learnt[plan.pieces.has_others :]
        carry = like_later_ones(self.network, pytree.tree_map_only(Tensor, Tensor.detach, plan.start))
        num_taps = len(plan.pieces.taps)
        for number, step in enumerate(steps):
            of_step = taps[number * num_taps : (number + 1) * num_taps]
            changing = tensors_of((carry, step._replace(totals={})))
            results = plan.step(*shared.weights, *others, *shared.values, *of_step, *changing)
            carry = with_tensors(carry, results)
            shared.rows.append(results[len(results) - len(plan.pieces.rows) :])
        return carry

    def kept_bytes(self, num_steps: int) -> int:
        """What so many steps keep for the gradients of the weights: as each step leaves it, and side by side."""
        kept = [tensor for plan in self._plans for tensor in (*plan.pieces.rows, *plan.pieces.taps)]
        return 2 * num_steps * sum(tensor.numel() * tensor.element_size() for tensor in kept)


class _Shared:
    """What the steps of one trajectory share, and the rows that each of them leaves behind."""

    def __init__(self, plan: Plan, parameters: Tensor, inputs: list[Tensor], precision: Precision) -> None:
        self.plan, self.parameters, self.inputs = plan, parameters, inputs
        with torch.no_grad():
            results = plan.once(for_computing(parameters, precision), *inputs)
        end_of_weights = plan.pieces.num_weights
        end_of_others = end_of_weights + plan.pieces.has_others
        self.weights = results[:end_of_weights]
        self.others: Sequence[Tensor] = results[end_of_weights:end_of_others]
        self.values = results[end_of_others:]
        self.rows: list[Sequence[Tensor]] = []

    def gradient(self, others: Sequence[Tensor], taps: list[Sequence[Tensor]]) -> Tensor:
        """That of all parameters, given those of the others and of the taps of each step."""
        rows, gradients = side_by_side(self.rows), side_by_side(taps)
        self.rows.clear()  # as they were left; side by side they are needed, and no longer
        weights = weight_gradients(self.plan.pieces.terms, self.weights, rows, gradients)
        (gradient,) = self.plan.backward(self.parameters, *self.inputs, *weights, *others)
        return gradient


class _Share(torch.autograd.Function):
    """Others, and taps of all steps: zeros, whose gradients become that of the parameters in one go."""

    @staticmethod
    def forward(ctx: Any, shared: _Shared, num_steps: int, values: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.shared = shared
        others, shared.others = shared.others, ()  # autograd ties them to `ctx`: kept here, nothing would ever be freed
        like = shared.plan.pieces.taps
        zeros = {dtype: values.new_zeros((), dtype=dtype) for dtype in {tap.dtype for tap in like}}
        taps = [zeros[tap.dtype].expand(tap.shape) for _ in range(num_steps) for tap in like]
        return (*others, *taps)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        shared, ctx.shared = ctx.shared, None
        pieces = shared.plan.pieces
        others, taps = gradients[: pieces.has_others], gradients[pieces.has_others :]
        starts = range(0, len(taps), len(pieces.taps))
        return None, None, shared.gradient(others, [taps[start : start + len(pieces.taps)] for start in starts])
