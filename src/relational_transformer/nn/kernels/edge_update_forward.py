"""The edge update, forward: one kernel for what an edge says to itself and to its reverse, another for the rest."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels.edge_tiles import (
    affine,
    before_last_norm,
    before_norm,
    edge_ends,
    edge_sizes,
    load_edges,
    load_vector,
    load_wide,
    moments,
    standardise,
)
from relational_transformer.nn.kernels.tiles import load_rows, store_chunk, store_rows

HALVES_PROGRAMS = 132 * 16
FORWARD_PROGRAMS = 132 * 12
ONE_WARP = {"num_warps": 1, "num_stages": 1}


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
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
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
    edge_weight += seed * edge_weight_seed_stride
    reverse_weight += seed * reverse_weight_seed_stride
    own_weight = ()
    other_weight = ()
    for chunk in tl.static_range(CHUNKS):
        tile = load_wide(edge_weight, edge_weight_stride, chunk, dtype, SIZE, CHUNK, MESSAGE, MESSAGE_PAD)
        own_weight = own_weight + (tile,)  # noqa: RUF005
        tile = load_wide(reverse_weight, reverse_weight_stride, chunk, dtype, SIZE, CHUNK, MESSAGE, MESSAGE_PAD)
        other_weight = other_weight + (tile,)  # noqa: RUF005
    for start in range(tl.program_id(0) * TILE, rows, tl.num_programs(0) * TILE):
        row = tl.arange(0, TILE).to(tl.int64) + start
        valid = row < rows
        own = tl.zeros((TILE, MESSAGE_PAD), tl.float32)
        other = tl.zeros((TILE, MESSAGE_PAD), tl.float32)
        for chunk in tl.static_range(CHUNKS):
            edge = load_edges(edges, row, valid, chunk, SIZE, CHUNK)
            own = tl.dot(edge, tl.trans(own_weight[chunk]), own, input_precision=PRECISION)
            other = tl.dot(edge, tl.trans(other_weight[chunk]), other, input_precision=PRECISION)
        store_rows(halves, row, valid, 2 * MESSAGE, own, MESSAGE)
        store_rows(halves + MESSAGE, row, valid, 2 * MESSAGE, other, MESSAGE)


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
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
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
        message = load_rows(halves, row, valid, 2 * MESSAGE, MESSAGE, MESSAGE_PAD).to(tl.float32)
        message += load_rows(halves + MESSAGE, reverse, valid, 2 * MESSAGE, MESSAGE, MESSAGE_PAD).to(tl.float32)
        message += load_rows(receivers, receiver, valid, MESSAGE, MESSAGE, MESSAGE_PAD).to(tl.float32)
        message += load_rows(senders, sender, valid, MESSAGE, MESSAGE, MESSAGE_PAD).to(tl.float32)
        message = tl.maximum(message, 0.0).to(dtype)
        tiles = ()
        for chunk in tl.static_range(CHUNKS):
            tile = before_norm(edges, row, valid, message, out_weight, out_bias, chunk, SIZE, CHUNK, MESSAGE, PRECISION)
            tiles = tiles + (tile,)  # noqa: RUF005
        mean, inverse = moments(tiles, eps, SIZE, CHUNK)

        feed = tl.zeros((TILE, FEED_PAD), tl.float32) + load_vector(feed_in_bias, 0, FEED, FEED_PAD)
        middle = ()
        for chunk in tl.static_range(CHUNKS):
            normal = standardise(tiles[chunk], mean, inverse, chunk, SIZE, CHUNK)
            tile = affine(normal, norm_weight, norm_bias, chunk, SIZE, CHUNK)
            weight = load_wide(feed_in_weight, SIZE, chunk, dtype, SIZE, CHUNK, FEED, FEED_PAD)
            feed = tl.dot(tile.to(dtype), tl.trans(weight), feed, input_precision=PRECISION)
            middle = middle + (tile,)  # noqa: RUF005
        feed = tl.maximum(feed, 0.0).to(dtype)
        tiles = ()
        for chunk in tl.static_range(CHUNKS):
            tile = before_last_norm(
                middle[chunk], feed, feed_out_weight, feed_out_bias, chunk, SIZE, CHUNK, FEED, PRECISION
            )
            tiles = tiles + (tile,)  # noqa: RUF005
        last_mean, last_inverse = moments(tiles, eps, SIZE, CHUNK)
        for chunk in tl.static_range(CHUNKS):
            normal = standardise(tiles[chunk], last_mean, last_inverse, chunk, SIZE, CHUNK)
            tile = affine(normal, feed_norm_weight, feed_norm_bias, chunk, SIZE, CHUNK)
            store_chunk(output, row, valid, SIZE, tile, chunk, SIZE)
        if SAVE:
            store_rows(messages, row, valid, MESSAGE, message, MESSAGE)
            store_rows(feeds, row, valid, FEED, feed, FEED)
            tl.store(statistics + row * 4, mean, mask=valid)
            tl.store(statistics + row * 4 + 1, inverse, mask=valid)
            tl.store(statistics + row * 4 + 2, last_mean, mask=valid)
            tl.store(statistics + row * 4 + 3, last_inverse, mask=valid)


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
    edge_halves_kernel[(sizes.programs(HALVES_PROGRAMS), sizes.seeds)](
        edges,
        edge_weight,
        reverse_weight,
        halves,
        *edge_weight.stride()[:2],
        *reverse_weight.stride()[:2],
        sizes.rows,
        **sizes.constants(),
        **ONE_WARP,
    )
    edge_update_forward_kernel[(sizes.programs(FORWARD_PROGRAMS), sizes.seeds)](
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
        **sizes.constants(),
        **ONE_WARP,
    )
    return output, messages, feeds, statistics
