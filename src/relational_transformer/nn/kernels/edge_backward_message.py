"""The edge update, backward, its first half: from the feed-forward through the first LayerNorm and the hidden layer."""

import triton
import triton.language as tl

from relational_transformer.nn.kernels.edge_tiles import (
    add_over_edges,
    before_norm,
    edge_ends,
    load_edges,
    load_tall,
    load_vector,
    load_wide,
    standardise,
    store_sums,
    through_norm,
)
from relational_transformer.nn.kernels.tiles import load_rows, store_chunk, store_rows


@triton.jit
def edge_backward_message_kernel(
    edges,  # [S, R, E]
    hidden,  # h = (m, f, 1) [S, R, HIDDEN]
    statistics,  # mean and 1 / std of the two LayerNorms [S, R, 4]
    out_weight,  # [S, E, M]
    out_bias,  # [S, E]
    norm_weight,  # [S, E]
    feed_in_weight,  # [S, F, E]
    feed_gradient,  # df [S, R, F], in float32
    edge_gradient,  # in: dy, out: dz [S, R, E]
    sides,  # (dm_ij, dm_ji, t = df / std, 0 ...) [S, R, SIDES]
    parts,  # parts of sums within kernels [S, P, ...]: what the first LayerNorm's weight gets, and F x (M + 2) others
    rows,
    nodes,
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
    SIDES: tl.constexpr,
):
    """dz, dm and t of some tiles of TILE edges of one seed, and sums over them. Rows past the end add zeros."""
    dtype: tl.constexpr = edges.dtype.element_ty
    seed = tl.program_id(1).to(tl.int64)
    edges += seed * rows * SIZE
    hidden += seed * rows * HIDDEN
    statistics += seed * rows * 4
    out_weight += seed * SIZE * MESSAGE
    out_bias += seed * SIZE
    norm_weight += seed * SIZE
    feed_in_weight += seed * SIZE * FEED
    feed_gradient += seed * rows * FEED
    edge_gradient += seed * rows * SIZE
    sides += seed * rows * SIDES
    parts += (seed * tl.num_programs(0) + tl.program_id(0)) * (3 * SIZE + FEED * (MESSAGE + 2)) + 2 * SIZE

    weight_sums = ()
    for _ in tl.static_range(CHUNKS):
        weight_sums = weight_sums + (tl.zeros((TILE // 2, CHUNK), tl.float32),)  # noqa: RUF005
    message_sum = tl.zeros((FEED_PAD, MESSAGE_PAD), tl.float32)
    scaled_sum = tl.zeros((TILE // 2, FEED_PAD), tl.float32)
    feed_sum = tl.zeros((TILE // 2, FEED_PAD), tl.float32)
    for start in tl.range(tl.program_id(0) * TILE, rows, tl.num_programs(0) * TILE, disable_licm=True):
        row = tl.arange(0, TILE).to(tl.int64) + start
        valid = (row < rows) | EVEN
        ends = edge_ends(row, nodes)
        message = load_rows(hidden, row, valid, HIDDEN, MESSAGE, MESSAGE_PAD)
        g = load_rows(feed_gradient, row, valid, FEED, FEED, FEED_PAD)
        g_feed = g.to(dtype)
        mean = tl.load(statistics + row * 4, mask=valid, other=0.0)
        inverse = tl.load(statistics + row * 4 + 1, mask=valid, other=0.0)

        scaled = (g * inverse[:, None]).to(dtype)
        store_rows(sides + 2 * MESSAGE, row, valid, SIDES, scaled, SIDES - 2 * MESSAGE)
        message_sum = tl.dot(tl.trans(scaled), message, message_sum, input_precision=PRECISION)
        scaled_sum = add_over_edges(scaled_sum, scaled.to(tl.float32))
        feed_sum = add_over_edges(feed_sum, g)

        # Through the inner Linear to the first LayerNorm.
        average = tl.zeros((TILE,), tl.float32)
        along = tl.zeros((TILE,), tl.float32)
        gradients = ()
        normals = ()
        new_weight_sums = ()
        for chunk in tl.static_range(CHUNKS):
            tile = before_norm(edges, row, valid, message, out_weight, out_bias, chunk, SIZE, CHUNK, MESSAGE, PRECISION)
            normal = standardise(tile, mean, inverse, chunk, SIZE, CHUNK)
            weight = load_wide(feed_in_weight, SIZE, chunk, dtype, SIZE, CHUNK, FEED, FEED_PAD)
            g = load_edges(edge_gradient, row, valid, chunk, SIZE, CHUNK).to(tl.float32)
            g = tl.dot(g_feed, weight, g, input_precision=PRECISION)
            new_weight_sums = new_weight_sums + (add_over_edges(weight_sums[chunk], g * normal),)  # noqa: RUF005
            g *= load_vector(norm_weight, chunk, SIZE, CHUNK)
            average += tl.sum(g, axis=1)
            along += tl.sum(g * normal, axis=1)
            gradients = gradients + (g,)  # noqa: RUF005
            normals = normals + (normal,)  # noqa: RUF005
        weight_sums = new_weight_sums
        average /= SIZE
        along /= SIZE

        # Through it to z and m. The gradient is overwritten in place: first everybody has read.
        tl.debug_barrier()
        g_message = tl.zeros((TILE, MESSAGE_PAD), tl.float32)
        for chunk in tl.static_range(CHUNKS):
            g = through_norm(gradients[chunk], normals[chunk], inverse, average, along, chunk, SIZE, CHUNK).to(dtype)
            store_chunk(edge_gradient, row, valid, SIZE, g, chunk, SIZE)
            weight = load_tall(out_weight, chunk, dtype, SIZE, CHUNK, MESSAGE, MESSAGE_PAD)
            g_message = tl.dot(g, weight, g_message, input_precision=PRECISION)
        g_message = tl.where(message.to(tl.float32) > 0.0, g_message, 0.0).to(dtype)
        store_rows(sides, row, valid, SIDES, g_message, MESSAGE)
        store_rows(sides + MESSAGE, ends[2], valid, SIDES, g_message, MESSAGE)

    for chunk in tl.static_range(CHUNKS):
        store_sums(parts, weight_sums[chunk], chunk * CHUNK, 1, SIZE)
    # sum t m^T, sum t and sum df, side by side [F, M + 2]
    parts += SIZE
    units = tl.arange(0, FEED_PAD)
    store_rows(parts, units, units < FEED, MESSAGE + 2, message_sum, MESSAGE)
    store_sums(parts + MESSAGE, scaled_sum, 0, MESSAGE + 2, FEED)
    store_sums(parts + MESSAGE + 1, feed_sum, 0, MESSAGE + 2, FEED)
