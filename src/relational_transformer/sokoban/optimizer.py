"""Adam for a fleet, with the gradient of every seed clipped to a norm."""

from collections.abc import Callable

import torch
from torch import Tensor

from relational_transformer.training.fleet import Fleet

from .settings import Recipe

BETAS = (0.9, 0.999)


class ClippedAdam:
    r"""Scale the gradient of a seed down to the norm `gradient_clip` where it is longer, then

    $$m \leftarrow \beta_1 m + (1 - \beta_1) g \quad v \leftarrow \beta_2 v + (1 - \beta_2) g^2 \quad
    w \leftarrow w - \eta \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}$$
    """

    def __init__(self, fleet: Fleet, recipe: Recipe, compiled: bool = False) -> None:
        self.fleet, self.recipe = fleet, recipe
        self.update: Callable[..., None] = torch.compile(_update, dynamic=False) if compiled else _update
        seeds = torch.arange(fleet.num_seeds, device=fleet.values.device)
        blocks = fleet.split(torch.zeros_like(fleet.values)).values()
        self.seed_of_value = torch.cat([seeds.repeat_interleave(block[0].numel()) for block in blocks])

    @torch.no_grad()
    def step(self, gradient: Tensor) -> None:
        """One step along a gradient, a vector like `fleet.values`."""
        fleet, recipe = self.fleet, self.recipe
        fleet.count += 1
        corrections = [(1 - beta**fleet.count).to(gradient.dtype) for beta in BETAS]
        scale = (recipe.gradient_clip / (self.norms(gradient) + 1e-6)).clamp(max=1.0)  # [S]
        gradient = gradient * scale[self.seed_of_value]
        self.update(
            fleet.values, fleet.first, fleet.second, gradient, recipe.learning_rate, recipe.adam_epsilon, *corrections
        )

    def norms(self, gradient: Tensor) -> Tensor:
        """The norm of each seed's part of a gradient, [S]."""
        blocks = self.fleet.split(gradient).values()
        seeds = range(self.fleet.num_seeds)
        return torch.stack([torch.nn.utils.get_total_norm([block[seed] for block in blocks]) for seed in seeds])


def _update(
    values: Tensor,
    first: Tensor,
    second: Tensor,
    gradient: Tensor,
    learning_rate: float,
    epsilon: float,
    first_correction: Tensor,
    second_correction: Tensor,
) -> None:
    first.mul_(BETAS[0]).add_(gradient, alpha=1 - BETAS[0])
    second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
    denominator = (second / second_correction).sqrt_().add_(epsilon)
    values.sub_((first / first_correction).div_(denominator), alpha=learning_rate)
