"""Orders of a matrix's numbers in which the lanes of a warp read them: fragments of 16 x 8 x 16 products."""

import torch
from torch import Tensor


def tiles(matrix: Tensor, permuted: bool = False) -> Tensor:
    """[out, in] -> [out / 8][in / 32][lane = 4 r + q][8]: row r, and of the block's 32 columns the lane's four pairs.

    Natural: columns 32 b + 8 k + 2 q + p. Permuted: 32 b + 8 q + 2 k + p, for k = 0 to 3.
    """
    rows = matrix.shape[0] // 8
    if permuted:
        return matrix.reshape(rows, 8, -1, 4, 8).transpose(1, 2).reshape(-1)
    return matrix.reshape(rows, 8, -1, 4, 4, 2).permute(0, 2, 1, 4, 3, 5).reshape(-1)


def lefts(matrix: Tensor) -> Tensor:
    """[out, in] -> [out / 16][in / 32][step][lane = 4 r + q][8]: a left operand, rows r and r + 8, columns
    32 b + 8 q + 4 step + 2 pair + p in the order pair, row, p."""
    return matrix.reshape(-1, 2, 8, matrix.shape[1] // 32, 4, 2, 2, 2).permute(0, 3, 5, 2, 4, 6, 1, 7).reshape(-1)


def pairs(matrix: Tensor) -> Tensor:
    """[out, 16] -> [out / 16][lane = 4 r + q][8]: fragments of two tiles of the edge update's permuted outputs: of tile
    4 b + t, row r is channel 32 b + 8 (r / 2) + 2 t + r % 2."""
    return matrix.reshape(-1, 4, 2, 2, 2, 2, 4, 2).permute(0, 2, 1, 4, 6, 3, 5, 7).reshape(-1)


def fragments(matrix: Tensor, permuted: bool = False) -> Tensor:
    """[out, in] -> [out / 8][in / 32][lane = 4 r + q][2][4]: row r, and of two steps of 16 columns the lane's pairs.

    Natural: columns 16 s + 8 half + 2 q + p. Permuted: 32 b + 8 q + 4 (s % 2) + 2 half + p, for s = 2 b and 2 b + 1.
    """
    rows, steps = matrix.shape[0] // 8, min(2, matrix.shape[1] // 16)
    if permuted:  # [tile, r, block, q, step, half, p]
        return matrix.reshape(rows, 8, -1, 4, 2, 2, 2).transpose(1, 2).reshape(-1)
    # [tile, r, block, step, half, q, p]
    return matrix.reshape(rows, 8, -1, steps, 2, 4, 2).permute(0, 2, 1, 5, 3, 4, 6).reshape(-1)


def left_fragments(matrix: Tensor) -> Tensor:
    """[out, in] -> [out / 16, in / 16, 256]: left operands, a lane's four pairs of 16 x 16 together.

    A lane's columns are neighbours, four of each 16. Rows of every 16: `neighbours`.
    """
    # [tile, lower, r, block, q, half, p] -> [tile, block, r, q, half, lower, p]
    split = neighbours(matrix).reshape(matrix.shape[0] // 16, 2, 8, -1, 4, 2, 2)
    return split.permute(0, 3, 2, 4, 5, 1, 6).flatten(2)


def by_warps(matrix: Tensor) -> Tensor:
    """Rows of every 24, which are one warp's: the first 16 as `neighbours` orders them, then the others."""
    first, last = matrix.unflatten(0, (-1, 24)).split([16, 8], dim=1)
    return torch.cat([neighbours(first.flatten(0, 1)).unflatten(0, (-1, 16)), last], dim=1).flatten(0, 1)


def eights(matrix: Tensor) -> Tensor:
    """Rows of every 32 in the order that gives a lane of four accumulators eight neighbours: row 8 t + 2 q + p is
    channel 8 q + 2 t + p."""
    return matrix.reshape(-1, 4, 4, 2, matrix.shape[1]).transpose(1, 2).reshape(matrix.shape)


def neighbours(matrix: Tensor) -> Tensor:
    """Rows of every 16 in the order that gives a lane of an accumulator four neighbours: row 8 t + 2 q + p is channel
    4 q + 2 t + p."""
    return matrix.reshape(-1, 4, 2, 2, matrix.shape[1]).transpose(1, 2).reshape(matrix.shape)
