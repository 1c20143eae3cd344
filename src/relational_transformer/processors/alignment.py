"""Linears with channels in multiples of eight where they are compiled, for the fast matrix products of a GPU."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relational_transformer.nn.alignment import padded


def align(tensor: Tensor, *dims: int) -> Tensor:
    """The same where it is compiled, so that the zeros cost next to nothing; otherwise the tensor as it is."""
    return padded(tensor, *dims) if torch.compiler.is_compiling() else tensor


def aligned_linear(vectors: Tensor, linear: nn.Linear) -> Tensor:
    """A Linear on vectors with aligned channels: the result has aligned channels, too, and zeros in those added.

    >>> vectors = torch.randn(4, 6)
    >>> aligned_linear(vectors, nn.Linear(6, 5)).shape, torch.compile(align, backend="eager")(vectors, -1).shape
    (torch.Size([4, 5]), torch.Size([4, 8]))
    """
    return F.linear(vectors, align(linear.weight, -1, -2), align(linear.bias, -1))
