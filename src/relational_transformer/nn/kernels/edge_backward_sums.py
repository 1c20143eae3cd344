"""Sums over edges of outer products of float32, by a kernel: cuBLAS would round the factors to tf32."""

import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels.tiles import dot_precision, load_columns, one_warp

ROWS = 16
REGISTERS = 168


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


def precise_products_of_parts(left: Tensor, right: Tensor, parts: int) -> Tensor:
    """sum_r left_r right_r^T [S, parts, A, B] of left [S, R, A] and right [S, R, B], both contiguous, over each of so
    many parts of the rows, all of one length."""
    seeds, rows, width = left.shape
    columns = right.shape[-1]
    sums = left.new_empty(seeds, parts, width, columns)
    outer_products_kernel[(triton.cdiv(width, 16) * triton.cdiv(columns, 64), parts, seeds)](
        left,
        right,
        sums,
        rows // parts,
        ROWS=ROWS,
        LEFT=width,
        RIGHT=columns,
        PRECISION=dot_precision(left.dtype),
        **one_warp(REGISTERS),
    )
    return sums
