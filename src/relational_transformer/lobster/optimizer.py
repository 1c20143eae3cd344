"""Adam for a fleet, with a gradient norm that is cut for each seed by itself."""

from collections.abc import Callable

import torch
from torch import Tensor

from relational_transformer.training.adam import BETAS
from relational_transformer.training.fleet import Fleet


class ClippedAdam:
    r"""Adam without weight decay or schedule, on gradients $g \cdot \min(1, c / \|g\|)$, the norm taken over all
    parameters of a seed."""

    def __init__(
        self, fleet: Fleet, learning_rate: float, epsilon: float, clip: float | None, compiled: bool = False
    ) -> None:
        self.fleet = fleet
        self.learning_rate, self.epsilon, self.clip = learning_rate, epsilon, clip
        self.update: Callable[..., None] = torch.compile(_update, dynamic=False) if compiled else _update

    @torch.no_grad()
    def step(self, gradient: Tensor) -> None:
        """One step along a gradient, a vector like `fleet.values`, which is changed in place if it is too long."""
        fleet = self.fleet
        if self.clip is not None:
            clip_norms([block.flatten(1) for block in fleet.split(gradient).values()], self.clip)
        fleet.count += 1
        corrections = [(1 - beta**fleet.count).to(gradient.dtype) for beta in BETAS]
        state = (fleet.values, fleet.first, fleet.second)
        self.update(*state, gradient, self.learning_rate, self.epsilon, *corrections)


def clip_norms(blocks: list[Tensor], largest: float) -> None:
    """Scale what belongs to a seed in blocks [S, numel] so that its norm over all of them is at most `largest`."""
    norms = torch.stack([torch.linalg.vector_norm(block, dim=1) for block in blocks])
    scale = (largest / torch.linalg.vector_norm(norms, dim=0)).clamp(max=1.0)  # [S]
    for block in blocks:
        block.mul_(scale.unsqueeze(-1))


def _update(
    values: Tensor, first: Tensor, second: Tensor, gradient: Tensor,
    learning_rate: float, epsilon: float, first_correction: Tensor, second_correction: Tensor,
) -> None:  # fmt: skip
    first.mul_(BETAS[0]).add_(gradient, alpha=1 - BETAS[0])
    second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
    denominator = (second / second_correction).sqrt_().add_(epsilon)
    values.sub_((first / first_correction).div_(denominator), alpha=learning_rate)
