"""The gradients of what all steps share, from what the steps have left side by side."""

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from relational_transformer.nn.kernels.whole_layer.weight_gradients import product

from .splitting import KeptTerm
from .terms import Kind

IN_ONE_LAUNCH = 128
"""So many tensors are concatenated by one launch on CUDA."""


def weight_gradients(
    terms: Sequence[KeptTerm], weights: Sequence[Tensor], rows: Sequence[Tensor], taps: Sequence[Tensor]
) -> list[Tensor]:
    """The gradients of weights, given rows and the gradients of taps of all steps, [S, T, ...]."""
    found: list[list[Tensor]] = [[] for _ in weights]
    columns: dict[int, list[KeptTerm]] = defaultdict(list)
    for term in terms:
        if term.kind == Kind.PRODUCT and term.row_shape is not None and term.row_shape[-1] == 1:
            columns[term.tap].append(term)  # one product for all of them
        else:
            found[term.weight].append(gradient_of(term, weights[term.weight], rows, taps))
    for tap, of_tap in columns.items():
        read = torch.cat([_seen_as(rows[term.row or 0], term.row_shape) for term in of_tap], dim=-1)
        gradients = product(_seen_as(taps[tap], of_tap[0].shape), read.to(taps[tap].dtype)).unbind(-1)  # [S, out] each
        for term, gradient in zip(of_tap, gradients, strict=True):
            found[term.weight].append(gradient.reshape(weights[term.weight].shape))
    return [sum(parts[1:], parts[0]) for parts in found]


def gradient_of(term: KeptTerm, weight: Tensor, rows: Sequence[Tensor], taps: Sequence[Tensor]) -> Tensor:
    """The gradient that one term gives to its weight."""
    gradient = _seen_as(taps[term.tap], term.shape)  # [S, T, ..., out]
    if term.row is None:
        return _sum_to(gradient, weight.shape)
    read = _seen_as(rows[term.row], term.row_shape).to(gradient.dtype)  # [S, T, ..., in]
    match term.kind:
        case Kind.SCALE:
            return _sum_to(read * gradient, weight.shape)
        case Kind.DOT:
            return product(gradient.unsqueeze(-1), read).view(weight.shape)
        case _ if weight.stride(1) < weight.stride(2):  # the transpose of a Linear's: laid out as it is
            return product(gradient, read).transpose(1, 2)
        case _:
            return product(read, gradient)


def side_by_side(steps: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """The tensors [S, ...] of every step, each side by side with those of the other steps: [S, T, ...].

    >>> first, second = torch.zeros(2, 3), torch.ones(2, 3)
    >>> [tensor.shape for tensor in side_by_side([[first], [second]])]
    [torch.Size([2, 2, 3])]
    """
    joined: dict[int, Tensor] = {}
    together: dict[torch.dtype, list[int]] = defaultdict(list)
    for number, tensor in enumerate(steps[0]):
        if len(tensor) * len(steps) > IN_ONE_LAUNCH:
            joined[number] = torch.stack([step[number] for step in steps], dim=1)
        else:
            together[tensor.dtype].append(number)
    for numbers in together.values():
        # Larger ones first: small ones of odd sizes would put them out of alignment.
        numbers.sort(key=lambda number: -steps[0][number].numel())
        parts = [step[number][seed].flatten() for number in numbers for seed in range(len(steps[0][number])) for step in steps]
        sizes = [len(steps) * steps[0][number].numel() for number in numbers]
        for number, block in zip(numbers, torch.cat(parts).split(sizes), strict=True):
            seeds, *rest = steps[0][number].shape
            joined[number] = block.view(seeds, len(steps), *rest)
    return [joined[number] for number in range(len(steps[0]))]


def _seen_as(tensor: Tensor, shape: torch.Size | None) -> Tensor:
    """A tensor [S, T, ...] as that of a step in another shape, [S, T, *shape[1:]]."""
    assert shape is not None
    return tensor.reshape(*tensor.shape[:2], *shape[1:])


def _sum_to(gradient: Tensor, shape: torch.Size) -> Tensor:
    """The sum over all steps and over what `shape` [S, ...] has been repeated along."""
    repeated = [axis + 1 for axis, size in enumerate(shape) if axis and size < gradient.shape[axis + 1]]
    return gradient.sum([1, *repeated]).view(shape)
