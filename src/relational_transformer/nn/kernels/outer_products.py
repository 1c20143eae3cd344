"""Sums over edges of outer products, sum_r left_r right_r^T: what a weight that every edge reads gets for a gradient.

Rounded numbers are multiplied by cuBLAS, which adds them in float32. float32 it would round to tf32 before, and a bias
is a sum of numbers times one: so where that matters they are added by a kernel, in the precision of the others.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels.tiles import dot_precision, load_columns, one_warp

ROWS = 16
REGISTERS = 168
TILES = 128
"""Tiles of 128 x 128 results that fill a large device: with fewer, the edges of a seed are summed in several parts."""


def sum_of_outer_products(left: Tensor, right: Tensor) -> Tensor:
    """sum_r left_r right_r^T [S, A, B] in float32, of left [S, R, A] and right [S, R, B], by cuBLAS.

    The parts that the rows are cut into are as long as each other, and added in a fixed order.
    """
    seeds, rows, width = left.shape
    if rows == 0:
        return left.new_zeros(seeds, width, right.shape[-1], dtype=torch.float32)
    one_piece = left.is_contiguous() and right.is_contiguous()
    parts = parts_of_rows(rows, seeds * -(-width // 128) * -(-right.shape[-1] // 128)) if one_piece else 1
    if parts == 1:
        return float_product(left.transpose(1, 2), right)
    return products_of_parts(left, right, parts).sum(1)


def parts_of_outer_products(left: Tensor, right: Tensor, parts: int) -> Tensor:
    """The partial sums, [S, parts, A, B], of contiguous tensors whose rows are divisible by `parts`. Float32 is as
    exact as the kernels' products."""
    if left.dtype != torch.float32:
        return products_of_parts(left, right, parts)
    return precise_products_of_parts(left, right, parts)


def products_of_parts(left: Tensor, right: Tensor, parts: int) -> Tensor:
    """The parts' products [S, parts, A, B] in float32, by cuBLAS."""
    seeds, rows, width = left.shape
    left, right = (tensor.reshape(seeds * parts, rows // parts, tensor.shape[-1]) for tensor in (left, right))
    return float_product(left.transpose(1, 2), right).view(seeds, parts, width, -1)


def float_product(left: Tensor, right: Tensor) -> Tensor:
    """A batched product, summed and returned in float32 whatever the factors' dtype."""
    if left.dtype == torch.float32:
        return torch.bmm(left, right)
    if not left.is_cuda:
        return torch.bmm(left.float(), right.float())
    return torch.bmm(left, right, out_dtype=torch.float32)


def parts_of_rows(rows: int, tiles: int) -> int:
    """The number of equal parts, no shorter than a kernel's tile, into which the rows of a product with `tiles` tiles
    of results are cut.

    >>> parts_of_rows(4 * 256 * 256, 1), parts_of_rows(32 * 64 * 64, 6), parts_of_rows(4 * 16 * 16, 200)
    (128, 16, 1)
    """
    wanted = max(1, min(rows // ROWS, TILES // tiles))
    return next(count for count in range(wanted, 0, -1) if rows % count == 0)


def precise_products_of_parts(left: Tensor, right: Tensor, parts: int) -> Tensor:
    """sum_r left_r right_r^T [S, parts, A, B] of left [S, R, A] and right [S, R, B], both contiguous, over each of
    `parts` equal parts of the rows."""
    seeds, rows, width = left.shape
    columns = right.shape[-1]
    sums = left.new_empty(seeds, parts, width, columns)
    outer_products_kernel[(triton.cdiv(width, 16) * triton.cdiv(columns, 64), parts, seeds)](
        left, right, sums, rows // parts,
        ROWS=ROWS, LEFT=width, RIGHT=columns, PRECISION=dot_precision(left.dtype), **one_warp(REGISTERS),
    )  # fmt: skip
    return sums


@triton.jit
def outer_products_kernel(
    left,  # [S, P * rows, LEFT]
    right,  # [S, P * rows, RIGHT]
    sums,  # [S, P, LEFT, RIGHT]
    rows,
    ROWS: tl.constexpr,
    LEFT: tl.constexpr,
    RIGHT: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A tile of 16 x 64 results of one part of a seed's rows."""
    RIGHT_TILES: tl.constexpr = (RIGHT + 63) // 64
    part = tl.program_id(2).to(tl.int64) * tl.num_programs(1) + tl.program_id(1)
    left += part * rows * LEFT
    right += part * rows * RIGHT
    left_columns = tl.program_id(0) // RIGHT_TILES * 16 + tl.arange(0, 16)
    right_columns = tl.program_id(0) % RIGHT_TILES * 64 + tl.arange(0, 64)
    total = tl.zeros((16, 64), tl.float32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        a = load_columns(left, row, row < rows, LEFT, left_columns, left_columns < LEFT)
        b = load_columns(right, row, row < rows, RIGHT, right_columns, right_columns < RIGHT)
        total = tl.dot(tl.trans(a), b, total, input_precision=PRECISION)
    where = (part * LEFT + left_columns[:, None]) * RIGHT + right_columns[None, :]
    tl.store(sums + where, total, mask=(left_columns < LEFT)[:, None] & (right_columns < RIGHT)[None, :])
