"""What attention's forward and backward pass share: head groups, parts of the keys and parts of the edges."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels.tiles import PREFERRED_WIDTH, chunk_width, dot_precision

KEYS = 16
"""Keys that a program works on at once."""


@dataclass(frozen=True)
class AttentionSizes:
    """Sizes of attention by H heads of D channels over edge vectors of E channels.

    Heads are worked on in groups, at best 64 channels wide: the paper's 12 heads of 16 are 3 groups of 4.
    """

    heads: int
    head_size: int
    edge_size: int
    dtype: torch.dtype

    @property
    def head_pad(self) -> int:
        return triton.next_power_of_2(self.head_size)

    @property
    def group_heads(self) -> int:
        return max(1, min(PREFERRED_WIDTH // self.head_pad, triton.next_power_of_2(self.heads)))

    @property
    def groups(self) -> int:
        return triton.cdiv(self.heads, self.group_heads)

    def constants(self) -> dict[str, int | str]:
        """The compile-time constants every attention kernel takes."""
        chunk = chunk_width(self.edge_size)
        return {
            "HEADS": self.heads,
            "HEAD_SIZE": self.head_size,
            "HEAD_PAD": self.head_pad,
            "GROUP_HEADS": self.group_heads,
            "EDGE_SIZE": self.edge_size,
            "CHUNK": chunk,
            "CHUNKS": triton.cdiv(self.edge_size, chunk),
            "PRECISION": dot_precision(self.dtype),
        }


def parts_of_keys(keys: int, most: int) -> int:
    """The number of parts into which the keys of a row are split: at most `most`, none of them empty.

    >>> parts_of_keys(256, 3), parts_of_keys(64, 3), parts_of_keys(40, 100), parts_of_keys(64, 0)
    (3, 2, 3, 1)
    """
    blocks = triton.cdiv(keys, KEYS)
    return triton.cdiv(blocks, triton.cdiv(blocks, max(1, min(blocks, most))))


@dataclass(frozen=True)
class Part:
    """Rows row ... row + rows of graphs first ... first + graphs of every seed: whole graphs, or a piece of one.

    Attention takes the edges in parts, so that the buffer of their queries and keys stays small.
    """

    first: int
    graphs: int
    row: int
    rows: int

    def edges(self, edges: Tensor) -> Tensor:
        """The edges of this part of [S, G, NQ, NK, E] in a row [S, graphs * rows * NK, E], a view."""
        graphs, rows = slice(self.first, self.first + self.graphs), slice(self.row, self.row + self.rows)
        return edges[:, graphs, rows].flatten(1, 3)


def parts_of_edges(edges: Tensor, width: int, buffer_bytes: int) -> list[Part]:
    """Parts of edges [S, G, NQ, NK, E] whose queries and keys of `width` channels fit a buffer, about equal in size.

    A buffer is at least a row of each seed. The first part is the largest.
    """
    seeds, graphs, queries, keys, _ = edges.shape
    rows_that_fit = max(1, buffer_bytes // (seeds * keys * 2 * width * edges.element_size()))
    graphs_at_once = equal_parts(graphs, max(1, rows_that_fit // queries))
    rows_at_once = equal_parts(queries, rows_that_fit)
    return [
        Part(first, min(graphs_at_once, graphs - first), row, min(rows_at_once, queries - row))
        for first in range(0, graphs, graphs_at_once)
        for row in range(0, queries, rows_at_once)
    ]


def equal_parts(count: int, most: int) -> int:
    """The size of about equal parts of `count` elements: at most `most`.

    >>> equal_parts(32, 10), equal_parts(4, 10), equal_parts(7, 1)
    (8, 4, 1)
    """
    return triton.cdiv(count, triton.cdiv(count, most))


def pair_buffer(edges: Tensor, width: int, largest: Part) -> Tensor:
    """Room for the queries and keys of the largest part's edges."""
    return edges.new_empty(edges.shape[0] * largest.graphs * largest.rows * edges.shape[3] * 2 * width)


def edge_pairs(edges: Tensor, weight: Tensor, buffer: Tensor) -> Tensor:
    """W_q e and W_k e side by side [S, R, 2 * H * D], in the buffer, of edges [S, R, E]."""
    width = weight.shape[1] // 3
    pairs = room_for_pairs(edges, width, buffer)
    return torch.bmm(edges, weight[:, : 2 * width].transpose(1, 2), out=pairs)


def room_for_pairs(edges: Tensor, width: int, buffer: Tensor) -> Tensor:
    """The part of the buffer that they take, [S, R, 2 * H * D]."""
    seeds, rows, _ = edges.shape
    return buffer[: seeds * rows * 2 * width].view(seeds, rows, 2 * width)


def row_strided(tensor: Tensor) -> Tensor:
    """The tensor itself where its rows follow each other at one stride (a slice of packed q, k, v), else a copy."""
    _, graphs, nodes, width = tensor.shape
    row = tensor.stride(2)
    if tensor.stride() == (graphs * nodes * row, nodes * row, row, 1) and row >= width:
        return tensor
    return tensor.contiguous()


@triton.jit
def group_columns(
    group, HEADS: tl.constexpr, HEAD_SIZE: tl.constexpr, HEAD_PAD: tl.constexpr, GROUP_HEADS: tl.constexpr
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
def sum_heads(product, GROUP_HEADS: tl.constexpr):
    """[T, GROUP_HEADS * HEAD_PAD] -> [T, GROUP_HEADS], summed within each head."""
    return tl.sum(tl.reshape(product, (product.shape[0], GROUP_HEADS, product.shape[1] // GROUP_HEADS)), axis=2)


@triton.jit
def spread_heads(values, HEAD_PAD: tl.constexpr):
    """[T, GROUP_HEADS] -> [T, GROUP_HEADS * HEAD_PAD], each head's value on all its channels."""
    rows: tl.constexpr = values.shape[0]
    heads: tl.constexpr = values.shape[1]
    return tl.reshape(tl.broadcast_to(values[:, :, None], (rows, heads, HEAD_PAD)), (rows, heads * HEAD_PAD))


@triton.jit
def widen(values, STEP: tl.constexpr):
    """[T, heads] -> [T, heads * STEP]: head h in column h * STEP, zeros between, for products that need 16 columns."""
    first = tl.arange(0, STEP) == 0
    wide = tl.where(first[None, None, :], values[:, :, None], 0.0)
    return tl.reshape(wide, (values.shape[0], values.shape[1] * STEP))
