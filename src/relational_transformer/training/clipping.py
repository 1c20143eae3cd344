"""Gradients that are not longer than they may be, each seed's by itself."""

from typing import NamedTuple

import torch
from torch import Tensor

from .fleet import Fleet


class Clipping(NamedTuple):
    """How gradients of a fleet, vectors like `fleet.values`, are clipped.

    Attributes:
        largest: norm that the gradient of a seed may have.
        num_seeds: S.
        owner: whose each number is, [S · P]; None for one seed alone.
    """

    largest: float
    num_seeds: int
    owner: Tensor | None


def clipping_of(fleet: Fleet, largest: float | None) -> Clipping | None:
    """How gradients of this fleet are clipped; None: not at all."""
    if largest is None:
        return None
    return Clipping(largest, fleet.num_seeds, owners(fleet) if fleet.num_seeds > 1 else None)


def owners(fleet: Fleet) -> Tensor:
    """The seed that each number of `fleet.values` belongs to, [S · P], in as few bytes as they take."""
    seeds = torch.arange(fleet.num_seeds, device=fleet.values.device)
    kind = torch.uint8 if fleet.num_seeds <= torch.iinfo(torch.uint8).max else torch.int32
    blocks = [seeds.to(kind).repeat_interleave(shape.numel()) for shape in fleet.shapes.values()]
    return torch.cat(blocks)


def clipped(gradient: Tensor, clipping: Clipping | None) -> Tensor:
    r"""$g \cdot \min(1, c / \|g\|)$, the norm taken over all parameters of a seed by itself, [S · P]."""
    if clipping is None:
        return gradient
    squares = gradient.square()
    if clipping.owner is None:
        return gradient * (clipping.largest / squares.sum().sqrt()).clamp(max=1.0)
    # A sum for each seed over all numbers: sums over one range are made in one pass. Where, not a product: what is not
    # finite stays with its seed.
    sums = [torch.where(clipping.owner == seed, squares, 0.0).sum() for seed in range(clipping.num_seeds)]
    shrinkage = (clipping.largest / torch.stack(sums).sqrt()).clamp(max=1.0)
    return gradient * shrinkage[clipping.owner.int()]
