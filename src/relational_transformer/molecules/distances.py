"""Distances as vectors that a network can read."""

import torch
from torch import Tensor

from relational_transformer.nn.checks import LARGEST_SIZE, check_number, check_size, check_tensor


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
    check_tensor("distances", distances, axes=0)
    check_basis(size, longest)
    longest = float(longest)  # an integer may be too long for torch
    centres = torch.linspace(0.0, longest, size, dtype=distances.dtype, device=distances.device)
    width = longest / (size - 1)
    return torch.exp(-0.5 * ((distances.unsqueeze(-1) - centres) / width).square())


def check_basis(size: int, longest: float, names: tuple[str, str] = ("size", "longest")) -> None:
    """Two centres at least, and a positive distance from the first to the last."""
    check_size(LARGEST_SIZE, **{names[0]: size})
    if size < 2:
        raise ValueError(f"{names[0]} must be at least 2 centres, got {size}")
    check_number(names[1], longest, least=1e-6, below=1e30)
