"""The gradients of what all steps share, from what the steps have left behind."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from relational_transformer.nn.kernels.whole_layer.weight_gradients import product

from .splitting import KeptTerm
from .terms import FEW, Kind

IN_ONE_LAUNCH = 128
"""So many tensors are concatenated by one launch on CUDA."""


def lie_side_by_side(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether what steps leave behind is worth copying, for one product instead of many. On CUDA that saves launches. A
    CPU in float32 is faster without; in bfloat16, where sums over the steps would be of float32, it is not."""
    return device.type == "cuda" or dtype.itemsize < 4


def gradients_over_steps(
    terms: Sequence[KeptTerm],
    weights: Sequence[Tensor],
    rows: list[Sequence[Tensor]],
    taps: Sequence[Sequence[Tensor]],
    joined: bool,
) -> list[Tensor]:
    """The gradients of weights, given rows and the gradients of taps of each step, [S, ...]: of all steps, `joined`
    side by side, or step by step, added up. The list of rows is emptied."""
    if joined:
        read, gradients = side_by_side(rows), side_by_side(taps)
        rows.clear()  # as they were left; side by side they are needed, and no longer
        return weight_gradients(terms, weights, read, gradients)
    totals: list[Tensor] = []
    for read, gradients in zip(rows, taps, strict=True):
        one_step = [row.unsqueeze(1) for row in read], [tap.unsqueeze(1) for tap in gradients]
        of_step = weight_gradients(terms, weights, *one_step)
        if not totals:
            totals = [one.clone() for one in of_step]  # weights may have their gradient in common
            continue
        for total, one in zip(totals, of_step, strict=True):
            total += one
    rows.clear()
    return totals


def weight_gradients(
    terms: Sequence[KeptTerm], weights: Sequence[Tensor], rows: Sequence[Tensor], taps: Sequence[Tensor]
) -> list[Tensor]:
    """The gradients of weights, given rows and the gradients of taps of all steps, [S, T, ...]."""
    found: list[list[Tensor]] = [[] for _ in weights]
    same = _with_same_gradient(terms, weights)  # by the first of them
    for alike in _together(list(same), weights):
        gradients = [_seen_as(taps[term.tap], term.shape) for term in alike]  # [S, T, ..., out]
        read = [_seen_as(rows[term.row], term.row_shape) for term in alike if term.row is not None]  # [S, T, ..., in]
        for term, result in zip(
            alike, _gradients(alike[0].kind, weights[alike[0].weight], gradients, read), strict=True
        ):
            for one in same[term]:
                found[one.weight].append(result)
    return [sum(parts[1:], parts[0]) for parts in found]


def _with_same_gradient(terms: Sequence[KeptTerm], weights: Sequence[Tensor]) -> dict[KeptTerm, list[KeptTerm]]:
    """Terms by the first that has the same gradient: sums that are added at the same place."""
    places: dict[Any, list[KeptTerm]] = defaultdict(list)
    for number, term in enumerate(terms):
        is_sum = term.kind == Kind.SUM
        places[(term.tap, term.shape, weights[term.weight].shape) if is_sum else number].append(term)
    return {alike[0]: alike for alike in places.values()}


def _gradients(kind: Kind, like: Tensor, gradients: list[Tensor], read: list[Tensor]) -> Sequence[Tensor]:
    """The gradients of terms that `_together` has put together, for weights that look alike."""
    match kind:
        case Kind.SUM:
            return _sums_to(_stacked(gradients), like.shape)
        case Kind.SCALE:
            return _sums_to(_stacked(read).to(gradients[0].dtype) * _stacked(gradients), like.shape)
        case Kind.DOT:  # the same is read, for several numbers
            stacked = torch.stack(gradients, dim=-1).to(read[0].dtype)
            return [one.reshape(like.shape) for one in product(stacked, read[0]).unbind(1)]
        case Kind.PRODUCT if read[0].shape[-1] == 1:  # several columns make the same
            columns = torch.cat(read, dim=-1).to(gradients[0].dtype)
            return [one.reshape(like.shape) for one in product(gradients[0], columns).unbind(-1)]
        case Kind.PRODUCT if like.stride(1) < like.stride(2):  # the transpose of a Linear's weight: laid out as it is
            return [product(gradients[0], read[0].to(gradients[0].dtype)).transpose(1, 2)]
        case Kind.PRODUCT:
            return [product(read[0].to(gradients[0].dtype), gradients[0])]


def _together(terms: Sequence[KeptTerm], weights: Sequence[Tensor]) -> Iterable[list[KeptTerm]]:
    """Terms that few launches deal with at once: columns and rows of one product, and small sums of one shape."""
    groups: dict[Any, list[KeptTerm]] = defaultdict(list)
    for number, term in enumerate(terms):
        shape, key = weights[term.weight].shape, None
        if term.kind == Kind.DOT:
            key = term.row
        elif term.row_shape is not None and term.row_shape[-1] == 1:
            key = term.tap
        elif term.kind in (Kind.SUM, Kind.SCALE) and term.shape.numel() <= FEW * term.shape[0]:
            key = term.shape
        groups[number if key is None else (term.kind, key, shape)].append(term)
    return groups.values()


def side_by_side(steps: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """The tensors [S, ...] of every step, each side by side with those of the other steps: [S, T, ...].

    >>> first, second = torch.zeros(2, 3), torch.ones(2, 3)
    >>> [tensor.shape for tensor in side_by_side([[first], [second]])]
    [torch.Size([2, 2, 3])]
    """
    joined: dict[int, Tensor] = {}
    together: dict[torch.dtype, list[int]] = defaultdict(list)
    for number, tensor in enumerate(steps[0]):
        if all(step[number].is_contiguous() for step in steps) and len(tensor) * len(steps) <= IN_ONE_LAUNCH:
            together[tensor.dtype].append(number)
        else:  # few axes, or else they are copied one by one
            parts = [step[number].flatten(1, -2) if tensor.dim() > 3 else step[number] for step in steps]
            joined[number] = torch.stack(parts, dim=1).view(len(tensor), len(steps), *tensor.shape[1:])
    for numbers in together.values():
        # Larger ones first: small ones of odd sizes would put them out of alignment.
        numbers.sort(key=lambda number: -steps[0][number].numel())
        seeds = {number: range(len(steps[0][number])) for number in numbers}
        parts = [step[number][seed].flatten() for number in numbers for seed in seeds[number] for step in steps]
        sizes = [len(steps) * steps[0][number].numel() for number in numbers]
        for number, block in zip(numbers, torch.cat(parts).split(sizes), strict=True):
            shape = steps[0][number].shape
            joined[number] = block.view(shape[0], len(steps), *shape[1:])
    return [joined[number] for number in range(len(steps[0]))]


def _seen_as(tensor: Tensor, shape: torch.Size | None) -> Tensor:
    """A tensor [S, T, ...] as that of a step in another shape, [S, T, *shape[1:]]."""
    assert shape is not None
    return tensor.reshape(*tensor.shape[:2], *shape[1:])


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(tensors)) if len(tensors) > 1 else tensors[0].unsqueeze(0)


def _sums_to(gradients: Tensor, shape: torch.Size) -> Sequence[Tensor]:
    """Of each of [K, S, T, ...] the sum over all steps and over what `shape` [S, ...] has been repeated along."""
    repeated = [axis + 2 for axis, size in enumerate(shape) if axis and size < gradients.shape[axis + 2]]
    return gradients.sum([2, *repeated]).view(-1, *shape).unbind(0)
