"""Adam for a fleet, with the published rule that a feature without any gradient is left alone."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from relational_transformer.reasoning.encoders import ColumnEncoder

from .fleet import Fleet

BETAS = (0.9, 0.999)
EPSILON = 1e-8


class Adam:
    r"""Adam without weight decay, schedule or clipping, on all seeds at once:

    $$m \leftarrow \beta_1 m + (1 - \beta_1) g \quad v \leftarrow \beta_2 v + (1 - \beta_2) g^2 \quad
    w \leftarrow w - \eta \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}$$

    The published training skips a parameter (and its moments) in a step in which its whole gradient is exactly zero.
    That happens where a feature is zero in a whole batch, so it is looked at for the Linears of the encoders.
    """

    def __init__(self, fleet: Fleet, module: nn.Module, learning_rate: float, compiled: bool = False) -> None:
        self.fleet = fleet
        self.learning_rate = learning_rate
        self.same_linear = {
            name: same.to(fleet.values.device, fleet.values.dtype) for name, same in _encoder_weights(module)
        }
        self.update: Callable[..., None] = torch.compile(update, dynamic=False) if compiled else update

    @torch.no_grad()
    def step(self, gradient: Tensor) -> None:
        """One step along a gradient, a vector like `fleet.values`."""
        fleet = self.fleet
        fleet.count += 1
        state = (fleet.values, fleet.first, fleet.second)
        by_name = [fleet.split(vector) for vector in state]
        before = {name: [blocks[name].clone() for blocks in by_name] for name in self.same_linear}
        self.update(*state, gradient, self.learning_rate, EPSILON, *corrections(fleet.count, gradient.dtype))
        gradient_by_name = fleet.split(gradient)
        for name, same in self.same_linear.items():
            has_gradient = (gradient_by_name[name] != 0).any(-1)  # [S, rows]
            moves = (has_gradient.to(same.dtype) @ same > 0).unsqueeze(-1)  # a row moves if its Linear has a gradient
            for blocks, old in zip(by_name, before[name], strict=True):
                blocks[name].copy_(torch.where(moves, blocks[name], old))


def corrections(count: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """1 - β^t for both moments after `count` steps."""
    return [(1 - beta**count).to(dtype) for beta in BETAS]


def update(
    values: Tensor,
    first: Tensor,
    second: Tensor,
    gradient: Tensor,
    learning_rate: float,
    epsilon: float,
    first_correction: Tensor,
    second_correction: Tensor,
) -> None:
    """Adam's rule, in place."""
    first.mul_(BETAS[0]).add_(gradient, alpha=1 - BETAS[0])
    second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
    denominator = (second / second_correction).sqrt_().add_(epsilon)
    values.sub_((first / first_correction).div_(denominator), alpha=learning_rate)


def _encoder_weights(module: nn.Module) -> Iterable[tuple[str, Tensor]]:
    """The weights of encoders, each with a matrix [rows, rows] of which rows belong to the same Linear."""
    for name, encoder in module.named_modules():
        if isinstance(encoder, ColumnEncoder):
            linear_of_row = torch.zeros(len(encoder.weight), dtype=torch.long)
            for number, linear in enumerate(encoder.linears):
                linear_of_row[linear.rows] = number
            yield f"{name}.weight", linear_of_row.unsqueeze(0) == linear_of_row.unsqueeze(1)
