"""The edge update, backward, in three kernels over the edges.

From the edges, the two hidden layers m and f and the LayerNorms' means and deviations, what lay between is made again.

1. Rows: from the gradient of the new edges back to z (what the first LayerNorm reads), m and f.
2. Sums: what the parameters after the first hidden layer get is a sum over edges. With the means that the first kernel
   leaves behind, every chunk of channels stands alone, and a program adds up many edges of one chunk.
3. Reverse: the hidden layer's gradient turns round, de_ij = dz_ij + W_e^T dm_ij + W_r^T dm_ji, and gives dW_e and dW_r.

Programs write their parts of the sums packed as `PackedGradients` says; one sum over the parts, in a fixed order,
ends it.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels.edge_parameters import PackedGradients
from relational_transformer.nn.kernels.edge_tiles import (
    affine,
    before_last_norm,
    before_norm,
    edge_ends,
    edge_sizes,
    load_edges,
    load_tall,
    load_vector,
    load_wide,
    standardise,
    through_norm,
)
from relational_transformer.nn.kernels.tiles import load_rows, store_chunk, store_rows

ROW_PROGRAMS = 132 * 12
SUM_PROGRAMS = 132 * 4
ONE_WARP = {"num_warps": 1, "num_stages": 1}


@triton.jit
def edge_rows_backward_kernel(
    gradient,  # [S, R, E]
    edges,  # [S, R, E]
    messages,  # m [S, R, M]
    feeds,  # f [S, R, F]
    statistics,  # mean and 1 / std of the two LayerNorms [S, R, 4]
    out_weight,  # [S, E, M]
    out_bias,  # [S, E]
    norm_weight,  # [S, E]
    norm_bias,  # [S, E]
    feed_in_weight,  # [S, F, E]
    feed_out_weight,  # [S, E, F]
    feed_out_bias,  # [S, E]
    feed_norm_weight,  # [S, E]
    first_gradient,  # dz [S, R, E]
    message_gradient,  # dm [S, R, M]
    feed_gradient,  # df [S, R, F]
    means,  # mean(g) and mean(g x^) of the two LayerNorms [S, R, 4]
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
    """dz, dm and df of some tiles of TILE edges of one seed."""
    dtype: tl.constexpr = edges.dtype.element_ty
    seed = tl.program_id(1).to(tl.int64)
    gradient += seed * rows * SIZE
    edges += seed * rows * SIZE
    messages += seed * rows * MESSAGE
    feeds += seed * rows * FEED
    statistics += seed * rows * 4
    out_weight += seed * SIZE * MESSAGE
    out_bias += seed * SIZE
    norm_weight += seed * SIZE
    norm_bias += seed * SIZE
    feed_in_weight += seed * SIZE * FEED
    feed_out_weight += seed * SIZE * FEED
    feed_out_bias += seed * SIZE
    feed_norm_weight += seed * SIZE
    first_gradient += seed * rows * SIZE
    message_gradient += seed * rows * MESSAGE
    feed_gradient += seed * rows * FEED
    means += seed * rows * 4
    for start in tl.range(tl.program_id(0) * TILE, rows, tl.num_programs(0) * TILE, disable_licm=True):
        row = tl.arange(0, TILE).to(tl.int64) + start
        valid = row < rows
        message = load_rows(messages, row, valid, MESSAGE, MESSAGE, MESSAGE_PAD)
        feed = load_rows(feeds, row, valid, FEED, FEED, FEED_PAD)
        mean = tl.load(statistics + row * 4, mask=valid, other=0.0)
        inverse = tl.load(statistics + row * 4 + 1, mask=valid, other=0.0)
        last_mean = tl.load(statistics + row * 4 + 2, mask=valid, other=0.0)
        last_inverse = tl.load(statistics + row * 4 + 3, mask=valid, other=0.0)

        # Forward again to the last LayerNorm's normal.
        average = tl.zeros((TILE,), tl.float32)
        along = tl.zeros((TILE,), tl.float32)
        tiles = ()
        for chunk in tl.static_range(CHUNKS):
            tile = before_norm(edges, row, valid, message, out_weight, out_bias, chunk, SIZE, CHUNK, MESSAGE, PRECISION)
            normal = standardise(tile, mean, inverse, chunk, SIZE, CHUNK)
            tile = affine(normal, norm_weight, norm_bias, chunk, SIZE, CHUNK)
            tile = before_last_norm(tile, feed, feed_out_weight, feed_out_bias, chunk, SIZE, CHUNK, FEED, PRECISION)
            normal = standardise(tile, last_mean, last_inverse, chunk, SIZE, CHUNK)
            g = load_edges(gradient, row, valid, chunk, SIZE, CHUNK).to(tl.float32)
            g *= load_vector(feed_norm_weight, chunk, SIZE, CHUNK)
            average += tl.sum(g, axis=1)
            along += tl.sum(g * normal, axis=1)
            tiles = tiles + (normal,)  # noqa: RUF005
        average /= SIZE
        along /= SIZE
        tl.store(means + row * 4, average, mask=valid)
        tl.store(means + row * 4 + 1, along, mask=valid)

        # Back through it and the feed-forward's outer Linear.
        hidden = tl.zeros((TILE, FEED_PAD), tl.float32)
        gradients = ()
        for chunk in tl.static_range(CHUNKS):
            g = load_edges(gradient, row, valid, chunk, SIZE, CHUNK).to(tl.float32)
            g *= load_vector(feed_norm_weight, chunk, SIZE, CHUNK)
            g = through_norm(g, tiles[chunk], last_inverse, average, along, chunk, SIZE, CHUNK)
            weight = load_tall(feed_out_weight, chunk, dtype, SIZE, CHUNK, FEED, FEED_PAD)
            hidden = tl.dot(g.to(dtype), weight, hidden, input_precision=PRECISION)
            gradients = gradients + (g,)  # noqa: RUF005
        hidden = tl.where(feed.to(tl.float32) > 0.0, hidden, 0.0).to(dtype)
        store_rows(feed_gradient, row, valid, FEED, hidden, FEED)

        # Through the inner Linear to the first LayerNorm.
        average = tl.zeros((TILE,), tl.float32)
        along = tl.zeros((TILE,), tl.float32)
        scaled = ()
        for chunk in tl.static_range(CHUNKS):
            weight = load_wide(feed_in_weight, SIZE, chunk, dtype, SIZE, CHUNK, FEED, FEED_PAD)
            g = tl.dot(hidden, weight, gradients[chunk], input_precision=PRECISION)
            g *= load_vector(norm_weight, chunk, SIZE, CHUNK)
            tile = before_norm(edges, row, valid, message, out_weight, out_bias, chunk, SIZE, CHUNK, MESSAGE, PRECISION)
            normal = standardise(tile, mean, inverse, chunk, SIZE, CHUNK)
            average += tl.sum(g, axis=1)
            along += tl.sum(g * normal, axis=1)
            scaled = scaled + (g,)  # noqa: RUF005
        average /= SIZE
        along /= SIZE
        tl.store(means + row * 4 + 2, average, mask=valid)
        tl.store(means + row * 4 + 3, along, mask=valid)

        # Through it to z and m.
        hidden = tl.zeros((TILE, MESSAGE_PAD), tl.float32)
        for chunk in tl.static_range(CHUNKS):
            tile = before_norm(edges, row, valid, message, out_weight, out_bias, chunk, SIZE, CHUNK, MESSAGE, PRECISION)
            normal = standardise(tile, mean, inverse, chunk, SIZE, CHUNK)
            g = through_norm(scaled[chunk], normal, inverse, average, along, chunk, SIZE, CHUNK).to(dtype)
            store_chunk(first_gradient, row, valid, SIZE, g, chunk, SIZE)
            weight = load_tall(out_weight, chunk, dtype, SIZE, CHUNK, MESSAGE, MESSAGE_PAD)
            hidden = tl.dot(g, weight, hidden, input_precision=PRECISION)
        hidden = tl.where(message.to(tl.float32) > 0.0, hidden, 0.0)
        store_rows(message_gradient, row, valid, MESSAGE, hidden, MESSAGE)


@triton.jit
def add_columns(sums, tile, column: tl.constexpr, dtype: tl.constexpr):
    """Add the sum over edges of a tile [T, CHUNK] to one row of sums [16, CHUNK]: a product with ones."""
    ones = tl.arange(0, sums.shape[0])[:, None] + tl.zeros((1, tile.shape[0]), tl.int32) == column
    return tl.dot(ones.to(tl.float32).to(dtype), tile.to(dtype), sums, input_precision="ieee")


@triton.jit
def store_sums(pointer, first, tile, chunk, ROWS: tl.constexpr, SIZE: tl.constexpr, LENGTH: tl.constexpr):
    """Put a chunk of sums [ROWS, CHUNK] into the packed rows first ... of LENGTH."""
    units = tl.arange(0, tile.shape[0])
    channels = chunk * tile.shape[1] + tl.arange(0, tile.shape[1])
    where = (first + units)[:, None] * LENGTH + channels[None, :]
    tl.store(pointer + where, tile, mask=(units < ROWS)[:, None] & (channels < SIZE)[None, :])


@triton.jit
def edge_sums_kernel(
    gradient,  # [S, R, E]
    edges,  # [S, R, E]
    messages,  # m [S, R, M]
    feeds,  # f [S, R, F]
    statistics,  # [S, R, 4]
    out_weight,  # [S, E, M]
    out_bias,  # [S, E]
    norm_weight,  # [S, E]
    norm_bias,  # [S, E]
    feed_in_weight,  # [S, F, E]
    feed_out_weight,  # [S, E, F]
    feed_out_bias,  # [S, E]
    feed_norm_weight,  # [S, E]
    first_gradient,  # dz [S, R, E]
    feed_gradient,  # df [S, R, F]
    means,  # [S, R, 4]
    parts,  # [S, P, PACKED, LENGTH]
    rows,
    PACKED: tl.constexpr,
    LENGTH: tl.constexpr,
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
    """Sums over some edges of one seed for one chunk of channels. Rows past the end are zero, and add nothing."""
    dtype: tl.constexpr = edges.dtype.element_ty
    chunk = tl.program_id(0) % CHUNKS
    part = tl.program_id(0) // CHUNKS
    programs = tl.num_programs(0) // CHUNKS
    seed = tl.program_id(1).to(tl.int64)
    gradient += seed * rows * SIZE
    edges += seed * rows * SIZE
    messages += seed * rows * MESSAGE
    feeds += seed * rows * FEED
    statistics += seed * rows * 4
    out_weight += seed * SIZE * MESSAGE
    out_bias += seed * SIZE
    norm_weight += seed * SIZE
    norm_bias += seed * SIZE
    feed_in_weight += seed * SIZE * FEED
    feed_out_weight += seed * SIZE * FEED
    feed_out_bias += seed * SIZE
    feed_norm_weight += seed * SIZE
    first_gradient += seed * rows * SIZE
    feed_gradient += seed * rows * FEED
    means += seed * rows * 4
    parts += (seed * programs + part) * PACKED * LENGTH

    out_sum = tl.zeros((MESSAGE_PAD, CHUNK), tl.float32)
    feed_in_sum = tl.zeros((FEED_PAD, CHUNK), tl.float32)
    feed_out_sum = tl.zeros((FEED_PAD, CHUNK), tl.float32)
    vectors = tl.zeros((16, CHUNK), tl.float32)
    feed_in_bias_sum = tl.zeros((FEED_PAD,), tl.float32)
    for start in tl.range(part * TILE, rows, programs * TILE, disable_licm=True):
        row = tl.arange(0, TILE).to(tl.int64) + start
        valid = row < rows
        message = load_rows(messages, row, valid, MESSAGE, MESSAGE, MESSAGE_PAD)
        feed = load_rows(feeds, row, valid, FEED, FEED, FEED_PAD)
        hidden = load_rows(feed_gradient, row, valid, FEED, FEED, FEED_PAD)
        g = load_edges(gradient, row, valid, chunk, SIZE, CHUNK).to(tl.float32)
        mean = tl.load(statistics + row * 4, mask=valid, other=0.0)
        inverse = tl.load(statistics + row * 4 + 1, mask=valid, other=0.0)
        last_mean = tl.load(statistics + row * 4 + 2, mask=valid, other=0.0)
        last_inverse = tl.load(statistics + row * 4 + 3, mask=valid, other=0.0)
        average = tl.load(means + row * 4, mask=valid, other=0.0)
        along = tl.load(means + row * 4 + 1, mask=valid, other=0.0)

        tile = before_norm(edges, row, valid, message, out_weight, out_bias, chunk, SIZE, CHUNK, MESSAGE, PRECISION)
        normal = standardise(tile, mean, inverse, chunk, SIZE, CHUNK)
        middle = affine(normal, norm_weight, norm_bias, chunk, SIZE, CHUNK)
        feed_in_sum = tl.dot(tl.trans(hidden), middle.to(dtype), feed_in_sum, input_precision=PRECISION)
        tile = before_last_norm(middle, feed, feed_out_weight, feed_out_bias, chunk, SIZE, CHUNK, FEED, PRECISION)
        last = standardise(tile, last_mean, last_inverse, chunk, SIZE, CHUNK)
        vectors = add_columns(vectors, g, 0, dtype)
        vectors = add_columns(vectors, g * last, 1, dtype)
        g *= load_vector(feed_norm_weight, chunk, SIZE, CHUNK)
        g = through_norm(g, last, last_inverse, average, along, chunk, SIZE, CHUNK)
        vectors = add_columns(vectors, g, 2, dtype)
        feed_out_sum = tl.dot(tl.trans(feed), g.to(dtype), feed_out_sum, input_precision=PRECISION)
        weight = load_wide(feed_in_weight, SIZE, chunk, dtype, SIZE, CHUNK, FEED, FEED_PAD)
        g = tl.dot(hidden, weight, g, input_precision=PRECISION)
        vectors = add_columns(vectors, g, 3, dtype)
        vectors = add_columns(vectors, g * normal, 4, dtype)
        g = load_edges(first_gradient, row, valid, chunk, SIZE, CHUNK)
        vectors = add_columns(vectors, g, 5, dtype)
        out_sum = tl.dot(tl.trans(message), g, out_sum, input_precision=PRECISION)
        feed_in_bias_sum += tl.sum(hidden.to(tl.float32), axis=0)

    store_sums(parts, 2 * MESSAGE, out_sum, chunk, MESSAGE, SIZE, LENGTH)
    store_sums(parts, 3 * MESSAGE, feed_in_sum, chunk, FEED, SIZE, LENGTH)
    store_sums(parts, 3 * MESSAGE + FEED, feed_out_sum, chunk, FEED, SIZE, LENGTH)
    store_sums(parts, 3 * MESSAGE + 2 * FEED, vectors, chunk, 6, SIZE, LENGTH)
    if chunk == 0:
        units = tl.arange(0, FEED_PAD)
        where = parts + (3 * MESSAGE + 2 * FEED + 6) * LENGTH + units
        tl.store(where, feed_in_bias_sum, mask=units < FEED)


@triton.jit
def edge_reverse_kernel(
    first_gradient,  # dz [S, R, E]
    message_gradient,  # dm [S, R, M]
    edges,  # [S, R, E]
    edge_weight,  # [S, M, E] by strides
    reverse_weight,  # [S, M, E] by strides
    edge_gradient,  # [S, R, E]
    parts,  # [S, P, PACKED, LENGTH]
    edge_weight_seed_stride,
    edge_weight_stride,
    reverse_weight_seed_stride,
    reverse_weight_stride,
    rows,
    nodes,
    PACKED: tl.constexpr,
    LENGTH: tl.constexpr,
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
    """de_ij = dz_ij + W_e^T dm_ij + W_r^T dm_ji, and dW_e, dW_r, for some edges of one seed and a chunk of channels."""
    dtype: tl.constexpr = edges.dtype.element_ty
    chunk = tl.program_id(0) % CHUNKS
    part = tl.program_id(0) // CHUNKS
    programs = tl.num_programs(0) // CHUNKS
    seed = tl.program_id(1).to(tl.int64)
    edges += seed * rows * SIZE
    first_gradient += seed * rows * SIZE
    edge_gradient += seed * rows * SIZE
    message_gradient += seed * rows * MESSAGE
    edge_weight += seed * edge_weight_seed_stride
    reverse_weight += seed * reverse_weight_seed_stride
    parts += (seed * programs + part) * PACKED * LENGTH
    own_weight = load_wide(edge_weight, edge_weight_stride, chunk, dtype, SIZE, CHUNK, MESSAGE, MESSAGE_PAD)
    other_weight = load_wide(reverse_weight, reverse_weight_stride, chunk, dtype, SIZE, CHUNK, MESSAGE, MESSAGE_PAD)
    own_sum = tl.zeros((MESSAGE_PAD, CHUNK), tl.float32)
    other_sum = tl.zeros((MESSAGE_PAD, CHUNK), tl.float32)
    for start in range(part * TILE, rows, programs * TILE):
        row = tl.arange(0, TILE).to(tl.int64) + start
        valid = row < rows
        _, _, reverse = edge_ends(row, nodes)
        own = load_rows(message_gradient, row, valid, MESSAGE, MESSAGE, MESSAGE_PAD)
        other = load_rows(message_gradient, reverse, valid, MESSAGE, MESSAGE, MESSAGE_PAD)
        edge = load_edges(edges, row, valid, chunk, SIZE, CHUNK)
        g = load_edges(first_gradient, row, valid, chunk, SIZE, CHUNK).to(tl.float32)
        own_sum = tl.dot(tl.trans(own), edge, own_sum, input_precision=PRECISION)
        other_sum = tl.dot(tl.trans(other), edge, other_sum, input_precision=PRECISION)
        g = tl.dot(own, own_weight, g, input_precision=PRECISION)
        g = tl.dot(other, other_weight, g, input_precision=PRECISION)
        channels = chunk * CHUNK + tl.arange(0, CHUNK)
        where = row[:, None] * SIZE + channels[None, :]
        tl.store(edge_gradient + where, g.to(dtype), mask=valid[:, None] & (channels < SIZE)[None, :])
    store_sums(parts, 0, own_sum, chunk, MESSAGE, SIZE, LENGTH)
    store_sums(parts, MESSAGE, other_sum, chunk, MESSAGE, SIZE, LENGTH)


def edge_update_backward(
    gradient: Tensor,
    edges: Tensor,
    messages: Tensor,
    feeds: Tensor,
    statistics: Tensor,
    parameters: list[Tensor],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of edges, receivers and senders, and those of the parameters as `PackedGradients` lays them out.

    `parameters` are those the backward pass reads, in the order of `edge_update`'s arguments.
    """
    sizes = edge_sizes(edges, messages.shape[-1], feeds.shape[-1])
    packed = PackedGradients(sizes.edge_size, sizes.message_size, sizes.feed_size)
    parts_of_sums = sizes.programs(triton.cdiv(SUM_PROGRAMS, sizes.chunks))
    parts = edges.new_zeros(sizes.seeds, parts_of_sums, packed.rows, packed.length, dtype=torch.float32)
    edge_gradient = torch.empty_like(edges)
    message_gradient = torch.empty_like(messages)
    if edges.numel() > 0:
        first_gradient = torch.empty_like(edges)
        feed_gradient = torch.empty_like(feeds)
        means = torch.empty_like(statistics)
        edge_weight, reverse_weight, *others = parameters
        given = (gradient, edges, messages, feeds, statistics, *others, first_gradient)
        constants = {**sizes.constants(), **ONE_WARP}
        packing = {"PACKED": packed.rows, "LENGTH": packed.length}
        edge_rows_backward_kernel[(sizes.programs(ROW_PROGRAMS), sizes.seeds)](
            *given, message_gradient, feed_gradient, means, sizes.rows, **constants
        )
        edge_sums_kernel[(sizes.chunks * parts_of_sums, sizes.seeds)](
            *given, feed_gradient, means, parts, sizes.rows, **packing, **constants
        )
        edge_reverse_kernel[(sizes.chunks * parts_of_sums, sizes.seeds)](
            first_gradient,
            message_gradient,
            edges,
            edge_weight,
            reverse_weight,
            edge_gradient,
            parts,
            *edge_weight.stride()[:2],
            *reverse_weight.stride()[:2],
            sizes.rows,
            sizes.nodes,
            **packing,
            **constants,
        )
    receivers_gradient = message_gradient.sum(3, dtype=torch.float32)
    senders_gradient = message_gradient.sum(2, dtype=torch.float32)
    return edge_gradient, receivers_gradient, senders_gradient, parts.sum(1)
