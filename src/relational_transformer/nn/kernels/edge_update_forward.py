"""The edge update, forward: one kernel for what an edge says to itself and to its reverse, another for the rest.

Edges of all graphs of a seed are numbered in a row, r = (graph * N + i) * N + j, so no tile is padded but the last.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels.tiles import dot_precision, load_rows, padded, store_rows


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

    def constants(self) -> dict[str, int | str]:
        """The compile-time constants every kernel of the edge update takes."""
        return {
            "SIZE": self.edge_size,
            "SIZE_PAD": padded(self.edge_size),
            "MESSAGE": self.message_size,
            "MESSAGE_PAD": padded(self.message_size),
            "FEED": self.feed_size,
            "FEED_PAD": padded(self.feed_size),
            "PRECISION": dot_precision(self.dtype),
        }

    def programs(self, tile: int, device_programs: int) -> int:
        """Programs that share the edges of a seed: together as many as the device holds, but none without a tile."""
        return max(1, min(triton.cdiv(self.rows, tile), triton.cdiv(device_programs, self.seeds)))


@triton.jit
def edge_ends(row, nodes):
    """Of edge (i, j) of a graph: the rows of node i, of node j, and of the reverse edge (j, i)."""
    node = row // nodes  # graph * N + i
    j = row - node * nodes
    graph = node // nodes
    sender = graph * nodes + j
    return node, sender, sender * nodes + node - graph * nodes


@triton.jit
def load_vector(pointer, SIZE: tl.constexpr, SIZE_PAD: tl.constexpr):
    """A parameter vector [1, SIZE_PAD] in float32."""
    channels = tl.arange(0, SIZE_PAD)
    return tl.load(pointer + channels, mask=channels < SIZE, other=0.0).to(tl.float32)[None, :]


@triton.jit
def load_parameter(pointer, stride, dtype: tl.constexpr, ROWS, ROWS_PAD: tl.constexpr, WIDTH, WIDTH_PAD: tl.constexpr):
    """A parameter matrix [ROWS_PAD, WIDTH_PAD] in the edges' dtype."""
    rows = tl.arange(0, ROWS_PAD)
    return load_rows(pointer, rows, rows < ROWS, stride, WIDTH, WIDTH_PAD).to(dtype)


@triton.jit
def standardise(tile, mean, inverse, SIZE: tl.constexpr):
    """(x - mean) / std, zero on padding channels."""
    channels = tl.arange(0, tile.shape[1])
    return tl.where((channels < SIZE)[None, :], (tile - mean[:, None]) * inverse[:, None], 0.0)


@triton.jit
def moments(tile, eps, SIZE: tl.constexpr):
    """Mean and 1 / std [T] along the channels."""
    mean = tl.sum(tile, axis=1) / SIZE
    centred = standardise(tile, mean, tl.full(mean.shape, 1.0, tl.float32), SIZE)
    return mean, tl.rsqrt(tl.sum(centred * centred, axis=1) / SIZE + eps)


@triton.jit
def contract(tile, weight, PRECISION: tl.constexpr):
    """tile [T, E] weight [E, hidden] -> [T, hidden]: blocks of channels apart, one to each warp, then their sum."""
    BLOCK: tl.constexpr = 32 if tile.shape[1] > 32 else 16
    BLOCKS: tl.constexpr = tile.shape[1] // BLOCK
    left = tl.permute(tl.reshape(tile, (tile.shape[0], BLOCKS, BLOCK)), (1, 0, 2))
    right = tl.reshape(weight, (BLOCKS, BLOCK, weight.shape[1]))
    return tl.sum(tl.dot(left, right, input_precision=PRECISION), axis=0)


@triton.jit
def edge_halves_kernel(
    edges,  # [S, R, E]
    edge_weight,  # [S, M, E] by strides
    reverse_weight,  # [S, M, E] by strides
    halves,  # [S, R, 2 * M]
    edge_weight_seed_stride,
    edge_weight_stride,
    reverse_weight_seed_stride,
    reverse_weight_stride,
    rows,
    TILE: tl.constexpr,
    PRECISION: tl.constexpr,
    SIZE: tl.constexpr,
    SIZE_PAD: tl.constexpr,
    MESSAGE: tl.constexpr,
    MESSAGE_PAD: tl.constexpr,
    FEED: tl.constexpr,
    FEED_PAD: tl.constexpr,
):
    """W_e e_r and W_r e_r, side by side, of some tiles of edges."""
    dtype: tl.constexpr = edges.dtype.element_ty
    seed = tl.program_id(1).to(tl.int64)
    edges += seed * rows * SIZE
    halves += seed * rows * 2 * MESSAGE
    own = load_parameter(
        edge_weight + seed * edge_weight_seed_stride, edge_weight_stride, dtype, MESSAGE, MESSAGE_PAD, SIZE, SIZE_PAD
    )
    reverse = load_parameter(
        reverse_weight + seed * reverse_weight_seed_stride,
        reverse_weight_stride,
        dtype,
        MESSAGE,
        MESSAGE_PAD,
        SIZE,
        SIZE_PAD,
    )
    for start in range(tl.program_id(0) * TILE, rows, tl.num_programs(0) * TILE):
        row = tl.arange(0, TILE).to(tl.int64) + start
        valid = row < rows
        edge = load_rows(edges, row, valid, SIZE, SIZE, SIZE_PAD)
        half = tl.dot(edge, tl.trans(own), input_precision=PRECISION)
        store_rows(halves, row, valid, 2 * MESSAGE, half, MESSAGE)
        half = tl.dot(edge, tl.trans(reverse), input_precision=PRECISION)
        store_rows(halves + MESSAGE, row, valid, 2 * MESSAGE, half, MESSAGE)


@triton.jit
def edge_update_forward_kernel(
    edges,  # [S, R, E]
    halves,  # [S, R, 2 * M]
    receivers,  # [S, G * N, M]
    senders,  # [S, G * N, M]
    out_weight,  # [S, E, M]
    out_bias,  # [S, E]
    norm_weight,  # [S, E]
    norm_bias,  # [S, E]
    feed_in_weight,  # [S, F, E]
    feed_in_bias,  # [S, F]
    feed_out_weight,  # [S, E, F]
    feed_out_bias,  # [S, E]
    feed_norm_weight,  # [S, E]
    feed_norm_bias,  # [S, E]
    output,  # [S, R, E]
    messages,  # m [S, R, M]
    feeds,  # f [S, R, F]
    statistics,  # mean and 1 / std of the two LayerNorms [S, R, 4]
    rows,
    nodes,
    eps,
    SAVE: tl.constexpr,
    TILE: tl.constexpr,
    PRECISION: tl.constexpr,
    SIZE: tl.constexpr,
    SIZE_PAD: tl.constexpr,
    MESSAGE: tl.constexpr,
    MESSAGE_PAD: tl.constexpr,
    FEED: tl.constexpr,
    FEED_PAD: tl.constexpr,
):
    """New edges, of some tiles of TILE edges of one seed."""
    dtype: tl.constexpr = edges.dtype.element_ty
    seed = tl.program_id(1).to(tl.int64)
    edges += seed * rows * SIZE
    halves += seed * rows * 2 * MESSAGE
    output += seed * rows * SIZE
    messages += seed * rows * MESSAGE
    feeds += seed * rows * FEED
    statistics += seed * rows * 4
    receivers += seed * (rows // nodes) * MESSAGE
    senders += seed * (rows // nodes) * MESSAGE
    out_weight += seed * SIZE * MESSAGE
    out_bias += seed * SIZE
    norm_weight += seed * SIZE
    norm_bias += seed * SIZE
    feed_in_weight += seed * SIZE * FEED
    feed_in_bias += seed * FEED
    feed_out_weight += seed * SIZE * FEED
    feed_out_bias += seed * SIZE
    feed_norm_weight += seed * SIZE
    feed_norm_bias += seed * SIZE
    for start in tl.range(tl.program_id(0) * TILE, rows, tl.num_programs(0) * TILE, disable_licm=True):
        row = tl.arange(0, TILE).to(tl.int64) + start
        valid = row < rows
        receiver, sender, reverse = edge_ends(row, nodes)
        edge = load_rows(edges, row, valid, SIZE, SIZE, SIZE_PAD).to(tl.float32)
        message = load_rows(halves, row, valid, 2 * MESSAGE, MESSAGE, MESSAGE_PAD).to(tl.float32)
        message += load_rows(halves + MESSAGE, reverse, valid, 2 * MESSAGE, MESSAGE, MESSAGE_PAD).to(tl.float32)
        message += load_rows(receivers, receiver, valid, MESSAGE, MESSAGE, MESSAGE_PAD).to(tl.float32)
        message += load_rows(senders, sender, valid, MESSAGE, MESSAGE, MESSAGE_PAD).to(tl.float32)
        message = tl.maximum(message, 0.0).to(dtype)

        weight = load_parameter(out_weight, MESSAGE, dtype, SIZE, SIZE_PAD, MESSAGE, MESSAGE_PAD)
        tile = edge + load_vector(out_bias, SIZE, SIZE_PAD)
        tile = tl.dot(message, tl.trans(weight), tile, input_precision=PRECISION)
        mean, inverse = moments(tile, eps, SIZE)
        tile = standardise(tile, mean, inverse, SIZE) * load_vector(norm_weight, SIZE, SIZE_PAD)
        tile += load_vector(norm_bias, SIZE, SIZE_PAD)

        weight = load_parameter(feed_in_weight, SIZE, dtype, FEED, FEED_PAD, SIZE, SIZE_PAD)
        feed = contract(tile.to(dtype), tl.trans(weight), PRECISION)
        feed = tl.maximum(feed + load_vector(feed_in_bias, FEED, FEED_PAD), 0.0).to(dtype)
        weight = load_parameter(feed_out_weight, FEED, dtype, SIZE, SIZE_PAD, FEED, FEED_PAD)
        tile += load_vector(feed_out_bias, SIZE, SIZE_PAD)
        tile = tl.dot(feed, tl.trans(weight), tile, input_precision=PRECISION)
        last_mean, last_inverse = moments(tile, eps, SIZE)
        tile = standardise(tile, last_mean, last_inverse, SIZE) * load_vector(feed_norm_weight, SIZE, SIZE_PAD)
        tile += load_vector(feed_norm_bias, SIZE, SIZE_PAD)
        store_rows(output, row, valid, SIZE, tile, SIZE)
        if SAVE:
            store_rows(messages, row, valid, MESSAGE, message, MESSAGE)
            store_rows(feeds, row, valid, FEED, feed, FEED)
            tl.store(statistics + row * 4, mean, mask=valid)
            tl.store(statistics + row * 4 + 1, inverse, mask=valid)
            tl.store(statistics + row * 4 + 2, last_mean, mask=valid)
            tl.store(statistics + row * 4 + 3, last_inverse, mask=valid)


def edge_sizes(edges: Tensor, message_size: int, feed_size: int) -> EdgeSizes:
    seeds, graphs, nodes, _, edge_size = edges.shape
    return EdgeSizes(seeds, nodes, graphs * nodes * nodes, edge_size, message_size, feed_size, edges.dtype)


def edge_update_forward(
    edges: Tensor, receivers: Tensor, senders: Tensor, parameters: list[Tensor], eps: float, save: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """New edges [S, G, N, N, E]; `parameters` in the order of `edge_update`'s arguments, each [S, ...].

    With `save`, also what the backward pass needs: both hidden layers [..., M] and [..., F], and the mean and 1 / std
    of both LayerNorms [..., 4]; otherwise these are empty.
    """
    sizes = edge_sizes(edges, receivers.shape[-1], parameters[7].shape[-1])
    output = torch.empty_like(edges)
    per_edge = edges.shape[:-1]
    messages = edges.new_empty((*per_edge, sizes.message_size) if save else (sizes.seeds, 0))
    feeds = edges.new_empty((*per_edge, sizes.feed_size) if save else (sizes.seeds, 0))
    statistics = edges.new_empty((*per_edge, 4) if save else (sizes.seeds, 0), dtype=torch.float32)
    if edges.numel() == 0:
        return output, messages, feeds, statistics
    edge_weight, reverse_weight, *others = parameters
    halves = edges.new_empty(*per_edge, 2 * sizes.message_size)
    options, programs = halves_options(sizes)
    edge_halves_kernel[(programs, sizes.seeds)](
        edges,
        edge_weight,
        reverse_weight,
        halves,
        *edge_weight.stride()[:2],
        *reverse_weight.stride()[:2],
        sizes.rows,
        **options,
        **sizes.constants(),
    )
    options, programs = forward_options(sizes)
    edge_update_forward_kernel[(programs, sizes.seeds)](
        edges,
        halves,
        receivers,
        senders,
        *others,
        output,
        messages,
        feeds,
        statistics,
        sizes.rows,
        sizes.nodes,
        eps,
        SAVE=save,
        **options,
        **sizes.constants(),
    )
    return output, messages, feeds, statistics


def halves_options(sizes: EdgeSizes) -> tuple[dict[str, int], int]:
    """Tile size and warps of the first kernel, and its programs for each seed."""
    return {"TILE": 32, "num_warps": 4, "num_stages": 1}, sizes.programs(32, 132 * 8)


def forward_options(sizes: EdgeSizes) -> tuple[dict[str, int], int]:
    """Tile size and warps of the second kernel, and its programs for each seed."""
    return {"TILE": 16, "num_warps": 4, "num_stages": 1}, sizes.programs(16, 132 * 6)
