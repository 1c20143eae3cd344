"""Distances as vectors that a network can read."""

import torch
from torch import Tensor


def distance_basis(distances: Tensor, size: int, longest: float) -> Tensor:
    r"""Each distance as its nearness to `size` centres, evenly spaced from 0 to `longest`.

    $$b_k(d) = \exp\left(-\frac{(d - \mu_k)^2}{2 \sigma^2}\right), \qquad \mu_k = k\,\sigma, \qquad
    \sigma = \frac{\text{longest}}{\text{size} - 1}$$

    Smooth in d, and zero far beyond `longest`. Shapes: [...] -> [..., size].

    >>> print(distance_basis(torch.tensor([0.0, 1.0, 2.5]), size=3, longest=2.0))
    tensor([[1.0000, 0.6065, 0.1353],
            [0.6065, 1.0000, 0.6065],
            [0.0439, 0.3247, 0.8825]])
    """
    if size < 2:
        raise ValueError(f"size must be at least 2 centres, got {size}")
    centres = torch.linspace(0.0, longest, size, dtype=distances.dtype, device=distances.device)
    width = longest / (size - 1)
    return torch.exp(-0.5 * ((distances.unsqueeze(-1) - centres) / width).square())
