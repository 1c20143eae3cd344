"""The steps of one trajectory, with what they share computed once."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .gradients import gradients_over_steps
from .plan import Plan


class SharedSteps:
    """Runs steps by a plan: `steps(*changing)` for each of them in turn.

    Of a step all that depends on what is the same in all of them is computed once. So are the gradients of the weights
    of Linears, and of all else that is learnt and added: each step leaves behind what was multiplied and the gradient
    of what came out, and a weight's gradient is one product of those of all steps; on a CPU in float32, a product of
    each, added up. So a step has fewer launches, and what goes through the steps are the gradients of few parameters or
    none.
    """

    def __init__(self, plan: Plan, learnt: Sequence[Tensor], inputs: Sequence[Tensor], num_steps: int) -> None:
        self._shared = _Shared(plan, [tensor.detach() for tensor in learnt], inputs)
        given = _Share.apply(self._shared, num_steps, *learnt)
        self._others, self._taps = given[: plan.pieces.has_others], given[plan.pieces.has_others :]

    def __call__(self, *changing: Tensor) -> Sequence[Tensor]:
        """What the next step makes."""
        shared = self._shared
        pieces = shared.plan.pieces
        first = len(shared.rows) * len(pieces.taps)
        taps = self._taps[first : first + len(pieces.taps)]
        made = shared.plan.step(*shared.weights, *self._others, *shared.values, *taps, *changing)
        end = len(made) - len(pieces.rows)
        shared.rows.append(made[end:])
        return made[:end]


class _Shared:
    """What the steps of one trajectory share, and the rows that each of them leaves behind."""

    def __init__(self, plan: Plan, learnt: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        self.plan, self.learnt, self.inputs = plan, learnt, inputs
        with torch.no_grad():
            results = plan.once(*map(plan.prepare, learnt), *inputs)
        end_of_weights = plan.pieces.num_weights
        end_of_others = end_of_weights + plan.pieces.has_others
        self.weights = results[:end_of_weights]
        self.others: Sequence[Tensor] = results[end_of_weights:end_of_others]
        self.values = results[end_of_others:]
        self.rows: list[Sequence[Tensor]] = []

    def gradients(self, others: Sequence[Tensor], taps: list[Sequence[Tensor]]) -> Sequence[Tensor]:
        """Those of all that is learnt, given those of the others and of the taps of each step."""
        weights = gradients_over_steps(self.plan.pieces.terms, self.weights, self.rows, taps, self.plan.joined)
        return self.plan.backward(*self.learnt, *self.inputs, *weights, *others)


class _Share(torch.autograd.Function):
    """Others, and taps of all steps: zeros, whose gradients become those of what is learnt in one go."""

    @staticmethod
    def forward(ctx: Any, shared: _Shared, num_steps: int, *learnt: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.shared = shared
        others, shared.others = shared.others, ()  # autograd ties them to `ctx`: kept here, nothing would ever be freed
        like = shared.plan.pieces.taps
        zeros = {dtype: learnt[0].new_zeros((), dtype=dtype) for dtype in {tap.dtype for tap in like}}
        taps = [zeros[tap.dtype].expand(tap.shape) for _ in range(num_steps) for tap in like]
        return (*others, *taps)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        shared, ctx.shared = ctx.shared, None
        pieces = shared.plan.pieces
        others, taps = gradients[: pieces.has_others], gradients[pieces.has_others :]
        starts = range(0, len(taps), len(pieces.taps))
        found = shared.gradients(others, [taps[start : start + len(pieces.taps)] for start in starts])
        return None, None, *found
