"""The edge update, forward: one product for what an edge says to itself and to its reverse, a kernel for the rest."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels.edge_parameters import hidden_width
from relational_transformer.nn.kernels.edge_tiles import (
    affine,
    before_norm,
    edge_ends,
    edge_sizes,
    in_float,
    load_vector,
    load_wide,
    moments,
    plus_feed,
    standardise,
)
from relational_transformer.nn.kernels.tiles import load_rows, one_warp, programs_at_once, store_chunk, store_rows

REGISTERS = 168


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
    hidden,  # h = (m, f, 1, 0 ...) [S, R, HIDDEN]
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
    HIDDEN: tl.constexpr,
    EVEN: tl.constexpr,  # the last tile is full
):
    """New edges, of some tiles of TILE edges of one seed."""
    dtype: tl.constexpr = edges.dtype.element_ty
    seed = tl.program_id(1).to(tl.int64)
    edges += seed * rows * SIZE
    halves += seed * rows * 2 * MESSAGE
    output += seed * rows * SIZE
    hidden += seed * rows * HIDDEN
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
        valid = (row < rows) | EVEN
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
            tile = middle[chunk] + load_vector(feed_out_bias, chunk, SIZE, CHUNK)
            tile = plus_feed(tile, feed, feed_out_weight, chunk, SIZE, CHUNK, FEED, PRECISION)
            tiles = tiles + (tile,)  # noqa: RUF005
        last_mean, last_inverse = moments(tiles, eps, SIZE, CHUNK)
        for chunk in tl.static_range(CHUNKS):
            normal = standardise(tiles[chunk], last_mean, last_inverse, chunk, SIZE, CHUNK)
            tile = affine(normal, feed_norm_weight, feed_norm_bias, chunk, SIZE, CHUNK)
            store_chunk(output, row, valid, SIZE, tile, chunk, SIZE)
        if SAVE:
            REST: tl.constexpr = HIDDEN - MESSAGE - FEED  # at most 8 columns
            store_rows(hidden, row, valid, HIDDEN, message, MESSAGE)
            store_rows(hidden + MESSAGE, row, valid, HIDDEN, feed, FEED)
            one = (tl.arange(0, 8) == 0).to(tl.float32)[None, :] + tl.zeros((TILE, 1), tl.float32)
            store_rows(hidden + MESSAGE + FEED, row, valid, HIDDEN, one, REST)
            tl.store(statistics + row * 4, mean, mask=valid)
            tl.store(statistics + row * 4 + 1, inverse, mask=valid)
            tl.store(statistics + row * 4 + 2, last_mean, mask=valid)
            tl.store(statistics + row * 4 + 3, last_inverse, mask=valid)


def edge_update_forward(
    edges: Tensor,
    receivers: Tensor,
    senders: Tensor,
    both_weights: Tensor,
    others: list[Tensor],
    eps: float,
    save: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """New edges [S, G, N, N, E]; `both_weights` [S, 2 * M, E] are W_e and W_r in the edges' dtype, `others` the rest of
    the parameters in the order of `edge_update`'s arguments, each [S, ...].

    With `save`, also what the backward pass needs: both hidden layers and a one, h = (m, f, 1, 0 ...) [..., K], and the
    mean and 1 / std of both LayerNorms [..., 4]; otherwise these are empty.
    """
    message_size, feed_size = receivers.shape[-1], others[5].shape[-1]
    sizes = edge_sizes(edges, message_size, feed_size)
    output = torch.empty_like(edges)
    per_edge = edges.shape[:-1]
    hidden = edges.new_empty((*per_edge, hidden_width(message_size, feed_size)) if save else (sizes.seeds, 0))
    statistics = edges.new_empty((*per_edge, 4) if save else (sizes.seeds, 0), dtype=torch.float32)
    if edges.numel() == 0:
        return output, hidden, statistics
    out_weight, out_bias, norm_weight, norm_bias, feed_in_weight, feed_in_bias, feed_out_weight, *last = others
    out_weight, feed_in_weight, feed_out_weight = (
        weight.to(edges.dtype) for weight in (out_weight, feed_in_weight, feed_out_weight)
    )
    out_bias, norm_weight, norm_bias, *last = in_float(out_bias, norm_weight, norm_bias, *last)
    edge_update_forward_kernel[(sizes.programs(programs_at_once(REGISTERS)), sizes.seeds)](
        edges,
        torch.bmm(edges.flatten(1, 3), both_weights.mT),
        receivers,
        senders,
        out_weight,
        out_bias,
        norm_weight,
        norm_bias,
        feed_in_weight,
        feed_in_bias,
        feed_out_weight,
        *last,
        output,
        hidden,
        statistics,
        sizes.rows,
        sizes.nodes,
        eps,
        SAVE=save,
        **sizes.constants(),
        **one_warp(REGISTERS),
    )
    return output, hidden, statistics
