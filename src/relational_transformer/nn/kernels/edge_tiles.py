"""Pieces the edge update's kernels share.

Edges of all graphs of a seed are numbered in a row, r = (graph * N + i) * N + j, so no tile is padded but the last. A
tile of 16 edges is cut into chunks of channels. What would not fit into registers is read, or made, again.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels.edge_parameters import hidden_width
from relational_transformer.nn.kernels.tiles import chunk_width, dot_precision, load_columns, padded

TILE = 16


@dataclass(frozen=True)
class EdgeSizes:
    """Sizes of an edge update: N nodes, R = G * N * N edges a seed, and the widths."""

    seeds: int
    nodes: int
    rows: int
    edge_size: int
    message_size: int
    feed_size: int
    dtype: torch.dtype

    @property
    def chunks(self) -> int:
        return triton.cdiv(self.edge_size, chunk_width(self.edge_size))

    def constants(self) -> dict[str, int | str]:
        """The compile-time constants every kernel of the edge update takes."""
        return {
            "TILE": TILE,
            "SIZE": self.edge_size,
            "CHUNK": chunk_width(self.edge_size),
            "CHUNKS": self.chunks,
            "MESSAGE": self.message_size,
            "MESSAGE_PAD": padded(self.message_size),
            "FEED": self.feed_size,
            "FEED_PAD": padded(self.feed_size),
            "HIDDEN": hidden_width(self.message_size, self.feed_size),
            "EVEN": self.rows % TILE == 0,
            "PRECISION": dot_precision(self.dtype),
        }

    def programs(self, on_device: int) -> int:
        """Programs that share the edges of a seed: together `on_device` at most, but one, and none without a tile."""
        return max(1, min(triton.cdiv(self.rows, TILE), on_device // self.seeds))


def edge_sizes(edges: Tensor, message_size: int, feed_size: int) -> EdgeSizes:
    seeds, graphs, nodes, _, edge_size = edges.shape
    return EdgeSizes(seeds, nodes, graphs * nodes * nodes, edge_size, message_size, feed_size, edges.dtype)


def in_float(*vectors: Tensor) -> tuple[Tensor, ...]:
    """Parameter vectors [S, E] in float32, as every tile reads them: turning them into it there takes as long as the
    rest of a LayerNorm."""
    if all(vector.dtype == torch.float32 for vector in vectors):
        return tuple(vector.contiguous() for vector in vectors)
    return torch.stack(vectors).float().unbind()


def both_weights(edge_weight: Tensor, reverse_weight: Tensor, dtype: torch.dtype) -> Tensor:
    """W_e and W_r, one below the other [S, 2 * M, E]: an edge is read once for itself and its reverse."""
    return torch.cat([edge_weight, reverse_weight], dim=1).to(dtype)


@triton.jit
def edge_ends(row, nodes):
    """Of edge (i, j) of a graph: the rows of node i, of node j, and of the reverse edge (j, i)."""
    node = row // nodes  # graph * N + i
    j = row - node * nodes
    graph = node // nodes
    sender = graph * nodes + j
    return node, sender, sender * nodes + node - graph * nodes


@triton.jit
def load_vector(pointer, chunk, SIZE: tl.constexpr, CHUNK: tl.constexpr):
    """A chunk [1, CHUNK] of a parameter vector, in float32."""
    channels = chunk * CHUNK + tl.arange(0, CHUNK)
    return tl.load(pointer + channels, mask=channels < SIZE, other=0.0).to(tl.float32)[None, :]


@triton.jit
def load_edges(pointer, row, valid, chunk, SIZE: tl.constexpr, CHUNK: tl.constexpr):
    """A chunk [T, CHUNK] of edges."""
    channels = chunk * CHUNK + tl.arange(0, CHUNK)
    return load_columns(pointer, row, valid, SIZE, channels, channels < SIZE)


@triton.jit
def load_tall(pointer, chunk, dtype: tl.constexpr, SIZE: tl.constexpr, CHUNK: tl.constexpr, HIDDEN, PAD: tl.constexpr):
    """A chunk [CHUNK, PAD] of the rows of a parameter matrix [SIZE, HIDDEN]."""
    channels = chunk * CHUNK + tl.arange(0, CHUNK)
    units = tl.arange(0, PAD)
    return load_columns(pointer, channels, channels < SIZE, HIDDEN, units, units < HIDDEN).to(dtype)


@triton.jit
def load_wide(
    pointer, stride, chunk, dtype: tl.constexpr, SIZE: tl.constexpr, CHUNK: tl.constexpr, HIDDEN, PAD: tl.constexpr
):
    """A chunk [PAD, CHUNK] of the columns of a parameter matrix [HIDDEN, SIZE], its rows ``stride`` apart."""
    channels = chunk * CHUNK + tl.arange(0, CHUNK)
    units = tl.arange(0, PAD)
    return load_columns(pointer, units, units < HIDDEN, stride, channels, channels < SIZE).to(dtype)


@triton.jit
def zero_padding(tile, chunk, SIZE: tl.constexpr, CHUNK: tl.constexpr):
    """Zeros on the channels that do not exist, where there are any."""
    if SIZE % CHUNK == 0:
        return tile
    else:
        channels = chunk * CHUNK + tl.arange(0, CHUNK)
        return tl.where((channels < SIZE)[None, :], tile, 0.0)


@triton.jit
def standardise(tile, mean, inverse, chunk, SIZE: tl.constexpr, CHUNK: tl.constexpr):
    """(x - mean) / std of one chunk, one operation a number; zero on padding channels."""
    return zero_padding(tile * inverse[:, None] - (mean * inverse)[:, None], chunk, SIZE, CHUNK)


@triton.jit
def moments(tiles, eps, SIZE: tl.constexpr, CHUNK: tl.constexpr):
    """Mean and 1 / std [T] along the channels of a chunked tile."""
    mean = tl.sum(tiles[0], axis=1)
    for chunk in tl.static_range(1, len(tiles)):
        mean += tl.sum(tiles[chunk], axis=1)
    mean /= SIZE
    variance = tl.zeros(mean.shape, tl.float32)
    for chunk in tl.static_range(len(tiles)):
        centred = zero_padding(tiles[chunk] - mean[:, None], chunk, SIZE, CHUNK)
        variance += tl.sum(centred * centred, axis=1)
    return mean, tl.rsqrt(variance / SIZE + eps)


@triton.jit
def before_norm(
    edges,
    row,
    valid,
    message,
    out_weight,
    out_bias,
    chunk,
    SIZE: tl.constexpr,
    CHUNK: tl.constexpr,
    MESSAGE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A chunk of z = W_5 m + b_5 + e, what the first LayerNorm reads."""
    edge = load_edges(edges, row, valid, chunk, SIZE, CHUNK)
    weight = load_tall(out_weight, chunk, edge.dtype, SIZE, CHUNK, MESSAGE, message.shape[1])
    start = edge.to(tl.float32) + load_vector(out_bias, chunk, SIZE, CHUNK)
    return tl.dot(message, tl.trans(weight), start, input_precision=PRECISION)


@triton.jit
def affine(normal, weight, bias, chunk, SIZE: tl.constexpr, CHUNK: tl.constexpr):
    """A chunk of what a LayerNorm returns: normal * weight + bias."""
    return normal * load_vector(weight, chunk, SIZE, CHUNK) + load_vector(bias, chunk, SIZE, CHUNK)


@triton.jit
def plus_feed(
    start, feed, feed_out_weight, chunk, SIZE: tl.constexpr, CHUNK: tl.constexpr, FEED: tl.constexpr, PRECISION
):
    """A chunk of W_7 f + start."""
    weight = load_tall(feed_out_weight, chunk, feed.dtype, SIZE, CHUNK, FEED, feed.shape[1])
    return tl.dot(feed, tl.trans(weight), start, input_precision=PRECISION)


@triton.jit
def through_norm(gradient, normal, inverse, mean, along, chunk, SIZE: tl.constexpr, CHUNK: tl.constexpr):
    """Through a normalisation with x^ its result: dx = (g - mean(g) - x^ mean(g x^)) / std, g the gradient of x^."""
    gradient = gradient * inverse[:, None] - (mean * inverse)[:, None]
    return zero_padding(gradient - normal * (along * inverse)[:, None], chunk, SIZE, CHUNK)


@triton.jit
def as_product(tile, dtype: tl.constexpr, PRECISION: tl.constexpr):
    """The same tile [T, C], with its numbers in the threads where a product leaves them: plus a product of zeros.

    Triton would have them where they were loaded, and move what is made of them and of a product to and fro.
    """
    left = tl.zeros((tile.shape[0], 16), dtype)
    right = tl.zeros((16, tile.shape[1]), dtype)
    return tl.dot(left, right, tile, input_precision=PRECISION)


@triton.jit
def add_over_edges(sums, tile):
    """Add the two halves of a tile [T, C] to sums [T / 2, C]: both lie in the same thread, so that nothing is moved."""
    return sums + tl.sum(tl.reshape(tile, (2, sums.shape[0], sums.shape[1])), axis=0)


@triton.jit
def store_sums(pointer, sums, first, stride, WIDTH: tl.constexpr):
    """End such sums: write the total of each column, of columns first ..., to numbers ``stride`` apart."""
    columns = first + tl.arange(0, sums.shape[1])
    tl.store(pointer + columns * stride, tl.sum(sums, axis=0), mask=columns < WIDTH)
