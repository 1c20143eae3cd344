"""Adam on gradients that are clipped, each seed's by itself: a few passes over all seeds."""

from collections.abc import Callable

import torch
from torch import Tensor

from .adam import Rule, State, count_step, state_of, update
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
        self._count: Callable[..., list[Tensor]] = compiled_for(count_step, device) if compiled else count_step
        self._update: Callable[..., None] = compiled_for(update_clipped, device) if compiled else update_clipped

    @torch.no_grad()
    def step(self, gradient: Tensor) -> None:
        """One step along a gradient, a vector like `fleet.values`."""
        fleet = self.fleet
        rule = Rule(self.learning_rate, self.epsilon, *self._count(fleet.count.view(1), gradient.dtype))
        self._update(state_of(fleet), gradient, rule, self.owners, fleet.num_seeds, self.clip)


def owners(fleet: Fleet) -> Tensor:
    """The seed that each number of `fleet.values` belongs to, [S · P], in as few bytes as they take."""
    seeds = torch.arange(fleet.num_seeds, device=fleet.values.device)
    kind = torch.uint8 if fleet.num_seeds <= torch.iinfo(torch.uint8).max else torch.int32
    blocks = [seeds.to(kind).repeat_interleave(shape.numel()) for shape in fleet.shapes.values()]
    return torch.cat(blocks)


def update_clipped(
    state: State, gradient: Tensor, rule: Rule, owner: Tensor | None, num_seeds: int, clip: float | None
) -> None:
    """Clip, then Adam's rule; the state is changed in place, the gradient is not."""
    if clip is not None:
        gradient = gradient * shrinkage(gradient, owner, num_seeds, clip)
    update(state, gradient, rule)


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
