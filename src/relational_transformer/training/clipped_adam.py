"""Adam on gradients that are clipped, each seed's by itself: one function of a few passes over all seeds."""

from collections.abc import Callable

import torch
from torch import Tensor

from .adam import corrections, update
from .compiling import compiled_for
from .fleet import Fleet


class ClippedAdam:
    r"""Adam on gradients $g \cdot \min(1, c / \|g\|)$, the norm taken over all parameters of a seed by itself.

    Compiled, norms, clipping and Adam's rule are a handful of kernels, however many parameters and seeds there are.
    """

    def __init__(
        self, fleet: Fleet, learning_rate: float, epsilon: float, clip: float | None, compiled: bool = False
    ) -> None:
        self.fleet = fleet
        self.learning_rate, self.epsilon, self.clip = learning_rate, epsilon, clip
        self.owners = owners(fleet) if clip is not None and fleet.num_seeds > 1 else None
        device = fleet.values.device
        self.step_of_all: Callable[..., None] = compiled_for(clipped_step, device) if compiled else clipped_step

    @torch.no_grad()
    def step(self, gradient: Tensor) -> None:
        """One step along a gradient, a vector like `fleet.values`."""
        fleet = self.fleet
        fleet.count += 1  # not compiled: torch 2.13 loses what is written into a number on a CPU
        state = (fleet.values, fleet.first, fleet.second, fleet.count)
        rates = (self.learning_rate, self.epsilon, self.clip)
        self.step_of_all(*state, gradient, self.owners, fleet.num_seeds, *rates)


def owners(fleet: Fleet) -> Tensor:
    """The seed that each number of `fleet.values` belongs to, [S · P], in as few bytes as they take."""
    seeds = torch.arange(fleet.num_seeds, device=fleet.values.device)
    kind = torch.uint8 if fleet.num_seeds <= torch.iinfo(torch.uint8).max else torch.int32
    blocks = [seeds.to(kind).repeat_interleave(shape.numel()) for shape in fleet.shapes.values()]
    return torch.cat(blocks)


def clipped_step(
    values: Tensor,
    first: Tensor,
    second: Tensor,
    count: Tensor,
    gradient: Tensor,
    owner: Tensor | None,
    num_seeds: int,
    learning_rate: float,
    epsilon: float,
    clip: float | None,
) -> None:
    """Clip, then Adam's rule for step number `count`; values and moments are changed in place."""
    if clip is not None:
        gradient = gradient * shrinkage(gradient, owner, num_seeds, clip)
    update(values, first, second, gradient, learning_rate, epsilon, *corrections(count, gradient.dtype))


def shrinkage(gradient: Tensor, owner: Tensor | None, num_seeds: int, largest: float) -> Tensor:
    """What to multiply a gradient [S · P] by so that the norm of no seed is above `largest`, [S · P].

    `owner` [S · P] says whose each number is; None is for one seed alone.
    """
    squares = gradient.square()
    if owner is None:
        return (largest / squares.sum().sqrt()).clamp(max=1.0)
    # A sum for each seed over all numbers: sums over one range are made in one pass. Where, not a product: what is not
    # finite stays with its seed.
    sums = torch.stack([torch.where(owner == seed, squares, 0.0).sum() for seed in range(num_seeds)])
    return (largest / sums.sqrt()).clamp(max=1.0)[owner.int()]
