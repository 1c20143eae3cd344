"""A Linear on a concatenation that is never built."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .checks import LARGEST_SIZE, check_batches, check_flag, check_place, check_size, check_tensor, check_weights
from .initialization import reset_linear
from .plain import can_be_cut, is_plain, replaceable


class ConcatLinear(nn.Linear):
    r"""Linear on the concatenation of several tensors: $W [x_1, x_2, \dots] + b = \sum_k W_k x_k + b$.

    The parts may broadcast against each other. So a vector of the whole graph joins every edge at the cost of one small
    product instead of one for each edge. Weight and bias are those of a plain Linear.

    Shapes: parts [..., size_k] -> [..., out_features], the sizes adding up to in_features.

    >>> linear = ConcatLinear(3 + 4, 2)
    >>> edges, whole = torch.randn(5, 5, 3), torch.randn(1, 1, 4)
    >>> torch.allclose(linear(edges, whole), linear(torch.cat([edges, whole.expand(5, 5, 4)], dim=-1)), atol=1e-6)
    True
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_size(3 * LARGEST_SIZE, in_features=in_features, out_features=out_features)
        check_flag(bias=bias)
        check_place(device, dtype)
        super().__init__(in_features, out_features, bias, device, dtype)

    def reset_parameters(self) -> None:
        reset_linear(self)

    @replaceable
    def forward(self, *parts: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        for number, part in enumerate(parts):
            check_tensor(f"parts[{number}]", part)
            check_weights(self, **{f"parts[{number}]": part})
        check_batches(**{f"parts[{number}]": (part, 1) for number, part in enumerate(parts)})
        if not can_be_cut(self.weight):
            return F.linear(concatenated(parts), self.weight, self.bias)
        return sum_of_products(parts, self.weight, self.bias)


def linear_of_parts(linear: nn.Module, parts: Sequence[Tensor]) -> Tensor:
    """A Linear on the concatenation of parts. The concatenation is built only where the module has to be called.

    >>> linear, parts = nn.Linear(3 + 4, 2), (torch.randn(5, 5, 3), torch.randn(1, 1, 4))
    >>> split = linear_of_parts(linear, parts)
    >>> handle = linear.register_forward_hook(lambda module, arguments, output: print("called"))
    >>> torch.allclose(linear_of_parts(linear, parts), split, atol=1e-6)
    called
    True
    """
    if is_plain(linear):
        return sum_of_products(parts, linear.weight, linear.bias)  # pyright: ignore[reportArgumentType]
    return linear(concatenated(parts))


def concatenated(parts: Sequence[Tensor]) -> Tensor:
    """The concatenation of the parts in the last axis, after broadcasting the others.

    >>> concatenated((torch.zeros(5, 3), torch.ones(2, 1, 4))).shape
    torch.Size([2, 5, 7])
    """
    if len(parts) == 1:
        return parts[0]
    batch = torch.broadcast_shapes(*(part.shape[:-1] for part in parts))
    return torch.cat([part.expand(*batch, -1) for part in parts], dim=-1)


def sum_of_products(parts: Sequence[Tensor], weight: Tensor, bias: Tensor | None) -> Tensor:
    """`F.linear` of the concatenated parts, by one product for each part."""
    sizes = [part.shape[-1] for part in parts]
    if sum(sizes) != weight.shape[1]:
        raise ValueError(f"the parts must have {weight.shape[1]} channels together, got {' + '.join(map(str, sizes))}")
    total = None
    for part, columns in zip(parts, weight.split(sizes, dim=1), strict=True):
        product = F.linear(part, columns, bias if total is None else None)
        total = product if total is None else total + product
    if total is None:
        raise ValueError("at least one part is needed, got none")
    return total
