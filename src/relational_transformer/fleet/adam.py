"""Adam for a fleet: one pass over the parameters of all seeds, with clipping and a schedule of the learning rate."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from .compiling import compiled_for
from .fleet import Fleet

BETAS = (0.9, 0.999)

Decay = Literal["constant", "cosine", "linear"]


@dataclass(frozen=True)
class Schedule:
    """How the learning rate changes over a run: a linear warm-up to its full value, then constant or down to zero.

    >>> Schedule(warmup_steps=100, decay="cosine").is_constant, Schedule().is_constant
    (False, True)
    """

    warmup_steps: int = 0
    """Training steps over which the learning rate grows from zero."""
    decay: Decay = "constant"
    """The learning rate after the warm-up: constant, or down to zero at the end of the run in half a cosine or a
    line."""

    def __post_init__(self) -> None:
        if self.warmup_steps < 0:
            raise ValueError(f"warmup-steps must be at least 0, got {self.warmup_steps}")
        if self.decay not in ("constant", "cosine", "linear"):
            raise ValueError(f"decay must be constant, cosine or linear, got {self.decay!r}")

    @property
    def is_constant(self) -> bool:
        return self.warmup_steps == 0 and self.decay == "constant"


CONSTANT = Schedule()
"""The full learning rate from the first step to the last."""


class Adam:
    r"""Adam for all seeds at once. The gradient g of each seed is first clipped to the norm `clip`:

    $$m \leftarrow \beta_1 m + (1 - \beta_1) g \quad v \leftarrow \beta_2 v + (1 - \beta_2) g^2 \quad
    w \leftarrow w - \eta \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}$$

    Before that, a `weight_decay` $\lambda$ subtracts $\eta \lambda w$ from every parameter (AdamW, Loshchilov & Hutter,
    2019).

    Compiled, the norms, the clipping and the update take a handful of kernels, whatever the number of parameters and
    seeds. The learning rate is computed on the device from the number of the step, so that a step can be captured as a
    CUDA graph.

    Args:
        total_steps: training steps of the run, over which the learning rate decays.
        linears: by the name of a matrix [rows, size], the number of the Linear that each of its rows belongs to. A step
            changes neither the values nor the moments of a Linear whose whole gradient is exactly zero.

    >>> fleet = Fleet([torch.nn.Linear(3, 2) for _ in range(4)], torch.device("cpu"))
    >>> Adam(fleet, 1e-3, clip=1.0).step(torch.ones_like(fleet.values))
    >>> int(fleet.count)
    1
    """

    def __init__(
        self, fleet: Fleet, learning_rate: float, *, epsilon: float = 1e-8, clip: float | None = None,
        schedule: Schedule = CONSTANT, total_steps: int = 0, linears: Mapping[str, Tensor] | None = None,
        weight_decay: float = 0.0, compiled: bool = False,
    ) -> None:  # fmt: skip
        self.fleet, self.epsilon, self.weight_decay = fleet, epsilon, weight_decay
        self.rate = Rate(learning_rate, schedule, total_steps)
        self.clipping = clipping_of(fleet, clip)
        self.linears = list(_rows_of_linears(fleet, linears or {}))
        device = fleet.values.device
        change = update_moving if self.linears else update
        self._count: Callable[..., list[Tensor]] = compiled_for(count_step, device) if compiled else count_step
        self._update: Callable[..., None] = compiled_for(change, device) if compiled else change

    @torch.no_grad()
    def step(self, gradient: Tensor) -> None:
        """One step along a gradient, a vector like `fleet.values`."""
        fleet = self.fleet
        first, second, *scheduled = self._count(fleet.count.view(1), gradient.dtype, self.rate)
        rate = scheduled[0] if scheduled else self.rate.value
        rule = Rule(rate, self.epsilon, first, second, self.weight_decay)
        state = State(fleet.values, fleet.first, fleet.second)
        self._update(state, gradient, rule, self.clipping, *([self.linears] if self.linears else []))


class State(NamedTuple):
    """What Adam changes: all parameters and both of their moments, a vector each."""

    values: Tensor
    first: Tensor
    second: Tensor


class Rate(NamedTuple):
    """The full learning rate, its schedule, and the number of steps that the schedule spans."""

    value: float
    schedule: Schedule
    total_steps: int


class Rule(NamedTuple):
    """The numbers of one update: the learning rate (a tensor where a schedule changes it), epsilon and bias
    corrections."""

    learning_rate: float | Tensor
    epsilon: float
    first_correction: Tensor
    second_correction: Tensor
    weight_decay: float


class Linears(NamedTuple):
    """Matrices [S, rows, size] of one name, in a vector like `fleet.values`.

    Attributes:
        start, stop: the range that they take up.
        shape: S, rows and size.
        same_linear: whether two rows belong to the same Linear, bool [rows, rows].
    """

    start: int
    stop: int
    shape: torch.Size
    same_linear: Tensor


class Clipping(NamedTuple):
    """How gradients of a fleet, vectors like `fleet.values`, are clipped.

    Attributes:
        largest: the largest norm of a seed's gradient.
        num_seeds: S.
        owner: the seed that each number belongs to, [S · P]; None for a fleet of one seed.
    """

    largest: float
    num_seeds: int
    owner: Tensor | None


def count_step(count: Tensor, dtype: torch.dtype, rate: Rate) -> list[Tensor]:
    """Add one to `count`, in place. Return the bias corrections of the step, and its learning rate where a schedule
    changes it.

    This is not part of the update: compiled into one pass over all parameters, the update would compute these powers
    for each of them. The count is a vector [1], because torch 2.13, compiling for a CPU, loses what is written into a
    scalar.
    """
    count += 1
    number = count.squeeze(0)
    corrections = [(1 - beta**number).to(dtype) for beta in BETAS]
    return corrections if rate.schedule.is_constant else [*corrections, learning_rate(rate, number).to(dtype)]


def learning_rate(rate: Rate, count: Tensor) -> Tensor:
    """The learning rate of step number `count`, counted from 1; a scalar tensor on the device.

    >>> rate = Rate(0.1, Schedule(warmup_steps=2, decay="linear"), total_steps=6)
    >>> [round(learning_rate(rate, torch.tensor(float(count))).item(), 4) for count in range(1, 8)]
    [0.05, 0.1, 0.075, 0.05, 0.025, 0.0, 0.0]
    """
    warmup, decay = rate.schedule.warmup_steps, rate.schedule.decay
    grown = (count / warmup).clamp(max=1.0) if warmup else torch.ones_like(count)
    if decay == "constant":
        return rate.value * grown
    done = ((count - warmup) / max(1, rate.total_steps - warmup)).clamp(0.0, 1.0)
    left = 1.0 - done if decay == "linear" else 0.5 * (1.0 + torch.cos(math.pi * done))
    return rate.value * grown * left


def update(state: State, gradient: Tensor, rule: Rule, clipping: Clipping | None) -> None:
    """Clip the gradient, then apply Adam's rule. The state is changed in place, the gradient is not."""
    gradient = clipped(gradient, clipping)
    values, first, second = state
    first.mul_(BETAS[0]).add_(gradient, alpha=1 - BETAS[0])
    second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
    denominator = (second / rule.second_correction).sqrt_().add_(rule.epsilon)
    direction = (first / rule.first_correction).div_(denominator)
    if rule.weight_decay:
        values.mul_(1 - rule.learning_rate * rule.weight_decay)
    if isinstance(rule.learning_rate, Tensor):
        values.sub_(direction.mul_(rule.learning_rate))
    else:
        values.sub_(direction, alpha=rule.learning_rate)


def update_moving(
    state: State, gradient: Tensor, rule: Rule, clipping: Clipping | None, linears: list[Linears]
) -> None:
    """`update` for all parameters but those of Linears whose gradient is zero.

    A mask over single numbers decides which of them change, so that the compiled update is one pass over the vectors.
    """
    moves = torch.ones_like(gradient, dtype=torch.bool)
    for matrix in linears:
        has_gradient = (gradient[matrix.start : matrix.stop].view(matrix.shape) != 0).unsqueeze(1)
        of_linear = has_gradient & matrix.same_linear.unsqueeze(-1)  # [S, rows, rows of its Linear, size]
        moves[matrix.start : matrix.stop].view(matrix.shape).copy_(of_linear.flatten(2).any(-1, keepdim=True))
    new = State(*(vector.clone() for vector in state))
    update(new, gradient, rule, clipping)
    for old, changed in zip(state, new, strict=True):
        old.copy_(torch.where(moves, changed, old))


def clipping_of(fleet: Fleet, largest: float | None) -> Clipping | None:
    """How gradients of this fleet are clipped; None where they are not."""
    if largest is None:
        return None
    return Clipping(largest, fleet.num_seeds, owners(fleet) if fleet.num_seeds > 1 else None)


def owners(fleet: Fleet) -> Tensor:
    """The seed that each number of `fleet.values` belongs to, [S · P], in the smallest integer type that holds S."""
    seeds = torch.arange(fleet.num_seeds, device=fleet.values.device)
    kind = torch.uint8 if fleet.num_seeds <= torch.iinfo(torch.uint8).max else torch.int32
    blocks = [seeds.to(kind).repeat_interleave(shape.numel()) for shape in fleet.shapes.values()]
    return torch.cat(blocks)


def clipped(gradient: Tensor, clipping: Clipping | None) -> Tensor:
    r"""$g \cdot \min(1, c / \|g\|)$, the norm taken over all parameters of a seed by itself, [S · P]."""
    if clipping is None:
        return gradient
    squares = gradient.square()
    if clipping.owner is None:
        return gradient * (clipping.largest / squares.sum().sqrt()).clamp(max=1.0)
    # Each seed's sum runs over all numbers, because the compiler makes all sums over one range in one pass. `where`
    # instead of a product keeps the NaN of one seed out of the sums of others.
    sums = [torch.where(clipping.owner == seed, squares, 0.0).sum() for seed in range(clipping.num_seeds)]
    shrinkage = (clipping.largest / torch.stack(sums).sqrt()).clamp(max=1.0)
    return gradient * shrinkage[clipping.owner.int()]


def _rows_of_linears(fleet: Fleet, linears: Mapping[str, Tensor]) -> Iterable[Linears]:
    start = 0
    for name, block in fleet.parameters.items():
        if name in linears:
            linear = linears[name].to(block.device)
            same_linear = linear.unsqueeze(0) == linear.unsqueeze(1)
            yield Linears(start, start + block.numel(), block.shape, same_linear)
        start += block.numel()
