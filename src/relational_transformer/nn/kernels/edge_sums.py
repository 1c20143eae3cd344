"""Sums over edges of outer products, by cuBLAS: what a weight that every edge reads gets for a gradient."""

import torch
from torch import Tensor

PRODUCTS = 128
"""Products that fill a large device: with fewer seeds, the edges of each are summed in several parts."""


def sum_of_outer_products(left: Tensor, right: Tensor) -> Tensor:
    """sum_r left_r right_r^T [S, A, B] in float32, of left [S, R, A] and right [S, R, B].

    The parts that the rows are cut into are as long as each other, and added in a fixed order.
    """
    seeds, rows, width = left.shape
    parts = parts_of_rows(rows, seeds)
    product = float_product(cut(left, parts).transpose(1, 2), cut(right, parts))
    if parts == 1:
        return product
    return product.view(seeds, parts, width, right.shape[-1]).sum(1)


def cut(tensor: Tensor, parts: int) -> Tensor:
    """[S, R, A] -> [S * parts, R / parts, A], a view where the rows of all seeds follow each other at one stride."""
    return tensor.unflatten(1, (parts, -1)).flatten(0, 1)


def float_product(left: Tensor, right: Tensor) -> Tensor:
    """A batched product, summed and returned in float32 whatever the factors' dtype."""
    if left.dtype == torch.float32:
        return torch.bmm(left, right)
    if not left.is_cuda:
        return torch.bmm(left.float(), right.float())
    return torch.bmm(left, right, out_dtype=torch.float32)


def parts_of_rows(rows: int, seeds: int) -> int:
    """Into how many parts of one length to cut the rows of so many seeds.

    >>> parts_of_rows(4 * 256 * 256, 1), parts_of_rows(4 * 16 * 16, 20), parts_of_rows(257 * 257, 1)
    (128, 4, 1)
    """
    wanted = max(1, min(rows, PRODUCTS // seeds))
    return next(count for count in range(wanted, 0, -1) if rows % count == 0)
