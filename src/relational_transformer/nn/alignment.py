"""Channels in multiples of eight, which fast matrix products of a GPU need."""

from torch import Tensor
from torch.nn import functional as F

ALIGNED = 8
"""Bfloat16 numbers in 16 bytes. Rows of other lengths, such as 180, are unaligned and are read in small pieces."""


def padded(tensor: Tensor, *dims: int) -> Tensor:
    """The tensor with zeros at the end of these dimensions (counted from the last, -1) up to a multiple of `ALIGNED`.

    >>> padded(torch.ones(12, 3), -2).shape, padded(torch.ones(3, 12), -1, -2).shape
    (torch.Size([16, 3]), torch.Size([8, 16]))
    """
    extra = {dim: -tensor.shape[dim] % ALIGNED for dim in dims}
    if not any(extra.values()):
        return tensor
    return F.pad(tensor, [number for dim in range(-1, min(dims) - 1, -1) for number in (0, extra.get(dim, 0))])
