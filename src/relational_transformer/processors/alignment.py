"""Linears whose channels are padded to multiples of eight in compiled code, for fast matrix products on a GPU."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relational_transformer.nn.alignment import padded


def align(tensor: Tensor, *dims: int) -> Tensor:
    """`padded` in compiled code, where the zeros cost almost nothing; otherwise the unchanged tensor."""
    return padded(tensor, *dims) if torch.compiler.is_compiling() else tensor


def aligned_linear(vectors: Tensor, linear: nn.Linear) -> Tensor:
    """A Linear on vectors with aligned channels. The channels of the result are padded with zeros to a multiple of
    eight.

    >>> vectors = torch.randn(4, 6)
    >>> aligned_linear(vectors, nn.Linear(6, 5)).shape, torch.compile(align, backend="eager")(vectors, -1).shape
    (torch.Size([4, 5]), torch.Size([4, 8]))
    """
    return F.linear(vectors, align(linear.weight, -1, -2), align(linear.bias, -1))
