"""The initialisation of the published model: truncated normal weights, zero biases."""

import math

import torch
from torch import Tensor, nn


@torch.no_grad()
def truncated_normal_(weight: Tensor, fan_in: int) -> Tensor:
    r"""Fill `weight` with $\sigma z$, $\sigma = 1/\sqrt{\text{fan\_in}}$, z a standard normal cut at ±2.

    The standard deviation is not corrected for the cut: this is the default of Haiku's linear layers.

    >>> weight = truncated_normal_(torch.empty(64, 25), fan_in=25)
    >>> bool(weight.abs().max() <= 2 / 5)
    True
    """
    sigma = 1 / math.sqrt(fan_in)
    if weight.dtype in (torch.float16, torch.bfloat16):  # drawn with their few bits, the tails would be lumps
        return weight.copy_(truncated_normal_(weight.float(), fan_in))
    return nn.init.trunc_normal_(weight, mean=0.0, std=sigma, a=-2 * sigma, b=2 * sigma)


@torch.no_grad()
def reset_linear(linear: nn.Linear) -> None:
    """Initialise a linear layer as the published model does."""
    truncated_normal_(linear.weight, linear.in_features)
    if linear.bias is not None:
        linear.bias.zero_()
