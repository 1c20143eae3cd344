"""The maximum along an axis, with a gradient that is right in compiled code as well."""

import torch
from torch import Tensor


def largest(values: Tensor, axis: int, *, keepdim: bool = False) -> Tensor:
    """The maximum along an axis, which is counted from the last, -1.

    The gradient of `amax` is shared by all elements that equal the maximum. A compiler may compute the elements again
    for that comparison, and round them otherwise: in one of its kernels bfloat16 numbers are float32. Then none equals
    the maximum, and the gradient is divided by zero (https://github.com/pytorch/pytorch/issues/195214). So in compiled
    code the gradient goes to one element, the first maximum, which is found by its number.

    >>> largest(torch.tensor([[3.0, 1.0], [2.0, 5.0]]), -2)
    tensor([3., 5.])
    """
    if not (torch.compiler.is_compiling() and torch.is_grad_enabled()):
        return values.amax(axis, keepdim=keepdim)
    numbers = torch.arange(values.shape[axis], device=values.device).view(-1, *(1,) * (-axis - 1))
    is_first = numbers == values.detach().argmax(axis, keepdim=True)
    return torch.where(is_first, values, 0).sum(axis, keepdim=keepdim)
