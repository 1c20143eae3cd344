"""How heads and edge vectors are cut into tiles, and the pieces the Triton kernels share.

The width of all heads (H * D) is cut into *groups* of whole heads, the edge vector into *chunks*. Both are powers of
two, at best 64: the paper's 12 heads of 16 are 3 groups, its 192 edge channels 3 chunks, without padding.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

PREFERRED_WIDTH = 64
SMALLEST_DOT = 16


@dataclass(frozen=True)
class HeadTiles:
    """Sizes of the tiles for ``heads`` heads of ``head_size`` channels over edge vectors of ``edge_size``."""

    heads: int
    head_size: int
    edge_size: int

    @property
    def head_pad(self) -> int:
        return triton.next_power_of_2(self.head_size)

    @property
    def group_heads(self) -> int:
        """Heads that are worked on together."""
        wanted = min(PREFERRED_WIDTH // self.head_pad, triton.next_power_of_2(self.heads))
        return max(1, SMALLEST_DOT // self.head_pad, wanted)

    @property
    def groups(self) -> int:
        return triton.cdiv(self.heads, self.group_heads)

    @property
    def chunk(self) -> int:
        return chunk_width(self.edge_size)

    def constants(self) -> dict[str, int]:
        """The compile-time constants every attention kernel takes."""
        return {
            "HEADS": self.heads,
            "HEAD_SIZE": self.head_size,
            "HEAD_PAD": self.head_pad,
            "GROUP_HEADS": self.group_heads,
            "EDGE_SIZE": self.edge_size,
            "CHUNK": self.chunk,
            "CHUNKS": triton.cdiv(self.edge_size, self.chunk),
        }


def chunk_width(size: int) -> int:
    """Width of the chunks a vector of ``size`` channels is cut into."""
    return min(PREFERRED_WIDTH, max(SMALLEST_DOT, triton.next_power_of_2(size)))


def dot_precision(dtype: torch.dtype) -> str:
    """``ieee`` for float32 when the user asked torch for the highest precision, tf32 otherwise."""
    highest = dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest"
    return "ieee" if highest else "tf32"


@triton.jit
def group_columns(
    group,
    HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PAD: tl.constexpr,
    GROUP_HEADS: tl.constexpr,
):
    """Columns [GROUP] of a head group within H * D, and which of them exist."""
    column = tl.arange(0, GROUP_HEADS * HEAD_PAD)
    if HEAD_PAD == HEAD_SIZE:
        offset = group * GROUP_HEADS * HEAD_PAD + column
        return offset, offset < HEADS * HEAD_SIZE
    else:
        head = group * GROUP_HEADS + column // HEAD_PAD
        within = column % HEAD_PAD
        return head * HEAD_SIZE + within, (head < HEADS) & (within < HEAD_SIZE)


@triton.jit
def load_matrix(pointer, rows, row_valid, columns, column_valid, width):
    """Tile [rows, columns] of a row-major matrix of ``width`` columns, zero where it does not exist."""
    where = rows[:, None] * width + columns[None, :]
    return tl.load(pointer + where, mask=row_valid[:, None] & column_valid[None, :], other=0.0)


@triton.jit
def load_chunks(pointer, rows, row_valid, SIZE: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr):
    """Rows of a matrix of SIZE columns as a tuple of tiles [rows, CHUNK]."""
    tiles = ()
    for chunk in tl.static_range(CHUNKS):
        columns = chunk * CHUNK + tl.arange(0, CHUNK)
        tiles = tiles + (load_matrix(pointer, rows, row_valid, columns, columns < SIZE, SIZE),)  # noqa: RUF005
    return tiles


@triton.jit
def cast_chunks(tiles, dtype: tl.constexpr):
    """The same tiles in another dtype."""
    cast = ()
    for chunk in tl.static_range(len(tiles)):
        cast = cast + (tiles[chunk].to(dtype),)  # noqa: RUF005
    return cast


@triton.jit
def project(start, edges, weights, PRECISION: tl.constexpr):
    """start [T, G] + edges [T, E] weights^T [E, G], both cut into chunks along E."""
    for chunk in tl.static_range(len(edges)):
        start = tl.dot(edges[chunk], tl.trans(weights[chunk]), start, input_precision=PRECISION)
    return start


@triton.jit
def sum_heads(product, GROUP_HEADS: tl.constexpr, HEAD_PAD: tl.constexpr):
    """[T, GROUP_HEADS * HEAD_PAD] -> [T, GROUP_HEADS], summed within each head."""
    return tl.sum(tl.reshape(product, (product.shape[0], GROUP_HEADS, HEAD_PAD)), axis=2)


@triton.jit
def spread_heads(values, HEAD_PAD: tl.constexpr):
    """[T, GROUP_HEADS] -> [T, GROUP_HEADS * HEAD_PAD], each head's value on all its channels."""
    rows: tl.constexpr = values.shape[0]
    heads: tl.constexpr = values.shape[1]
    return tl.reshape(tl.broadcast_to(values[:, :, None], (rows, heads, HEAD_PAD)), (rows, heads * HEAD_PAD))


@triton.jit
def spread_rows(values, ROWS: tl.constexpr, KEYS: tl.constexpr):
    """[ROWS * KEYS, H] -> [ROWS * KEYS, ROWS * H]: block diagonal, edge (i, j) keeps its values in columns (i, h).

    With it, sums over j for every (i, h), and products of every (i, h) with a vector of its own, are matrix products.
    """
    edge_row = tl.arange(0, ROWS * KEYS) // KEYS
    own = edge_row[:, None] == tl.arange(0, ROWS)[None, :]
    blocks = tl.where(own[:, :, None], values[:, None, :], 0.0)
    return tl.reshape(blocks, (ROWS * KEYS, ROWS * values.shape[1]))


@triton.jit
def gather_rows(blocks, ROWS: tl.constexpr, KEYS: tl.constexpr):
    """[ROWS * KEYS, ROWS * H] -> [ROWS * KEYS, H]: edge (i, j) keeps the columns (i, h) of its own row."""
    edge_row = tl.arange(0, ROWS * KEYS) // KEYS
    own = edge_row[:, None] == tl.arange(0, ROWS)[None, :]
    heads: tl.constexpr = blocks.shape[1] // ROWS
    return tl.sum(tl.where(own[:, :, None], tl.reshape(blocks, (ROWS * KEYS, ROWS, heads)), 0.0), axis=1)
