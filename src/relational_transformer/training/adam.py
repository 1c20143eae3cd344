"""Adam for a fleet, with the published rule that a feature without any gradient is left alone."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from relational_transformer.reasoning.encoders import ColumnEncoder

from .clipping import Clipping, clipped, clipping_of
from .compiling import compiled_for
from .fleet import Fleet

BETAS = (0.9, 0.999)
EPSILON = 1e-8


class Adam:
    r"""Adam without weight decay or schedule, on all seeds at once; gradients are clipped where that is asked for:

    $$m \leftarrow \beta_1 m + (1 - \beta_1) g \quad v \leftarrow \beta_2 v + (1 - \beta_2) g^2 \quad
    w \leftarrow w - \eta \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}$$

    The published training skips a parameter (and its moments) in a step in which its whole gradient is exactly zero.
    That happens where a feature is zero in a whole batch, so it is looked at for the Linears of the encoders.
    """

    def __init__(
        self, fleet: Fleet, module: nn.Module, learning_rate: float, clip: float | None = None, compiled: bool = False
    ) -> None:
        self.fleet = fleet
        self.learning_rate, self.clipping = learning_rate, clipping_of(fleet, clip)
        self.encoders = list(_encoder_weights(fleet, module))
        device = fleet.values.device
        self._count: Callable[..., list[Tensor]] = compiled_for(count_step, device) if compiled else count_step
        self._update: Callable[..., None] = compiled_for(update_moving, device) if compiled else update_moving

    @torch.no_grad()
    def step(self, gradient: Tensor) -> None:
        """One step along a gradient, a vector like `fleet.values`."""
        rule = Rule(self.learning_rate, EPSILON, *self._count(self.fleet.count.view(1), gradient.dtype))
        self._update(state_of(self.fleet), gradient, rule, self.encoders, self.clipping)


class State(NamedTuple):
    """What Adam changes: vectors of all parameters, and of both of their moments."""

    values: Tensor
    first: Tensor
    second: Tensor


class Rule(NamedTuple):
    """What Adam does in a step; the `corrections` are those of the step."""

    learning_rate: float
    epsilon: float
    first_correction: Tensor
    second_correction: Tensor


def state_of(fleet: Fleet) -> State:
    return State(fleet.values, fleet.first, fleet.second)


class EncoderWeight(NamedTuple):
    """The weight of an encoder, [S, rows, size], in a vector like `fleet.values`.

    Attributes:
        start, stop: where it lies.
        shape: S, rows and size.
        same_linear: which rows belong to the same Linear, bool [rows, rows].
    """

    start: int
    stop: int
    shape: torch.Size
    same_linear: Tensor


def count_step(count: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """Count a step, in place, and give its `corrections`. Apart from the update, which is one pass over all parameters
    and would make these powers again for every one of them. The count is a vector [1]: compiled on a CPU, torch 2.13
    loses what is written into a number."""
    count += 1
    return corrections(count.squeeze(0), dtype)


def corrections(count: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """1 - β^t for both moments after `count` steps."""
    return [(1 - beta**count).to(dtype) for beta in BETAS]


def update(state: State, gradient: Tensor, rule: Rule) -> None:
    """Adam's rule, in place."""
    values, first, second = state
    first.mul_(BETAS[0]).add_(gradient, alpha=1 - BETAS[0])
    second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
    denominator = (second / rule.second_correction).sqrt_().add_(rule.epsilon)
    values.sub_((first / rule.first_correction).div_(denominator), alpha=rule.learning_rate)


def update_moving(
    state: State, gradient: Tensor, rule: Rule, encoders: list[EncoderWeight], clipping: Clipping | None = None
) -> None:
    """Adam's rule, in place, for all but the Linears of encoders that have no gradient; clipped before.

    What moves is decided number by number: so all is one pass over the vectors when it is compiled.
    """
    moves = torch.ones_like(gradient, dtype=torch.bool)
    for weight in encoders:
        has_gradient = (gradient[weight.start : weight.stop].view(weight.shape) != 0).unsqueeze(1)
        of_linear = has_gradient & weight.same_linear.unsqueeze(-1)  # [S, rows, rows of its Linear, size]
        moves[weight.start : weight.stop].view(weight.shape).copy_(of_linear.flatten(2).any(-1, keepdim=True))
    new = State(*(vector.clone() for vector in state))
    update(new, clipped(gradient, clipping), rule)
    for old, changed in zip(state, new, strict=True):
        old.copy_(torch.where(moves, changed, old))


def _encoder_weights(fleet: Fleet, module: nn.Module) -> Iterable[EncoderWeight]:
    encoders = {f"{name}.weight": part for name, part in module.named_modules() if isinstance(part, ColumnEncoder)}
    start = 0
    for name, block in fleet.parameters.items():
        if name in encoders:
            linear_of_row = torch.zeros(block.shape[1], dtype=torch.long, device=block.device)
            for number, linear in enumerate(encoders[name].linears):
                linear_of_row[linear.rows] = number
            same_linear = linear_of_row.unsqueeze(0) == linear_of_row.unsqueeze(1)
            yield EncoderWeight(start, start + block.numel(), block.shape, same_linear)
        start += block.numel()
