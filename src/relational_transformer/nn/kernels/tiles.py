"""Tile sizes and the pieces the Triton kernels share.

Every matrix product inside a kernel has 16 rows (heads, keys or edges). Larger ones would be compiled to Hopper's
warpgroup instructions, which the assembler shipped with Triton 3.6 miscompiles in kernels of several products (wrong
numbers, or reads past the end of shared memory); the large products are cuBLAS's.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

SMALLEST_DOT = 16


def padded(size: int) -> int:
    """The power of two, at least 16, that an axis is padded to inside a kernel."""
    return max(SMALLEST_DOT, triton.next_power_of_2(size))


@dataclass(frozen=True)
class AttentionSizes:
    """Sizes of attention by H heads of D channels over edge vectors of E channels."""

    heads: int
    head_size: int
    edge_size: int
    dtype: torch.dtype

    def constants(self) -> dict[str, int | str]:
        """The compile-time constants every attention kernel takes."""
        return {
            "HEADS": self.heads,
            "HEADS_PAD": padded(self.heads),
            "HEAD_SIZE": self.head_size,
            "HEAD_PAD": triton.next_power_of_2(self.head_size),
            "EDGE_SIZE": self.edge_size,
            "EDGE_PAD": padded(self.edge_size),
            "PRECISION": dot_precision(self.dtype),
        }


def dot_precision(dtype: torch.dtype) -> str:
    """``ieee`` for float32 when the user asked torch for the highest precision, tf32 otherwise."""
    highest = dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest"
    return "ieee" if highest else "tf32"


@triton.jit
def head_columns(HEADS: tl.constexpr, HEADS_PAD: tl.constexpr, HEAD_SIZE: tl.constexpr, HEAD_PAD: tl.constexpr):
    """Columns [HEADS_PAD, HEAD_PAD] of head h, channel d within H * D, and which of them exist."""
    head = tl.arange(0, HEADS_PAD)[:, None]
    channel = tl.arange(0, HEAD_PAD)[None, :]
    return head * HEAD_SIZE + channel, (head < HEADS) & (channel < HEAD_SIZE)


@triton.jit
def load_heads(pointer, rows, row_valid, columns, column_valid, stride):
    """Rows of width H * D as [rows, heads, channels] in float32, zero where they do not exist."""
    where = rows[:, None, None] * stride + columns[None, :, :]
    return tl.load(pointer + where, mask=row_valid[:, None, None] & column_valid[None, :, :], other=0.0).to(tl.float32)


@triton.jit
def load_rows(pointer, rows, row_valid, stride, WIDTH: tl.constexpr, WIDTH_PAD: tl.constexpr):
    """Rows of WIDTH columns, ``stride`` apart, as a tile [rows, WIDTH_PAD], zero where they do not exist."""
    columns = tl.arange(0, WIDTH_PAD)
    where = rows[:, None] * stride + columns[None, :]
    return tl.load(pointer + where, mask=row_valid[:, None] & (columns < WIDTH)[None, :], other=0.0)


@triton.jit
def store_rows(pointer, rows, row_valid, stride, tile, WIDTH: tl.constexpr):
    """Write a tile [rows, padded width] to rows of WIDTH columns, ``stride`` apart."""
    columns = tl.arange(0, tile.shape[1])
    where = rows[:, None] * stride + columns[None, :]
    value = tile.to(pointer.dtype.element_ty)
    tl.store(pointer + where, value, mask=row_valid[:, None] & (columns < WIDTH)[None, :])
