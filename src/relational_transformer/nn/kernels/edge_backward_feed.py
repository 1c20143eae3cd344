"""The edge update, backward, its second half: from the new edges through the last LayerNorm and the feed-forward."""

import triton
import triton.language as tl

from relational_transformer.nn.kernels.edge_tiles import (
    add_over_edges,
    as_product,
    before_norm,
    load_edges,
    load_tall,
    load_vector,
    plus_feed,
    standardise,
    store_sums,
    through_norm,
)
from relational_transformer.nn.kernels.tiles import load_rows, store_chunk, store_rows


@triton.jit
def edge_backward_feed_kernel(
    gradient,  # [S, R, E]
    edges,  # [S, R, E]
    hidden,  # h = (m, f, 1) [S, R, HIDDEN]
    statistics,  # mean and 1 / std of the two LayerNorms [S, R, 4]
    out_weight,  # [S, E, M]
    out_bias,  # [S, E]
    norm_weight,  # [S, E]
    norm_bias,  # [S, E]
    feed_out_weight,  # [S, E, F]
    feed_out_bias,  # [S, E]
    feed_norm_weight,  # [S, E]
    last_gradient,  # dy [S, R, E]
    feed_gradient,  # df [S, R, F], in float32
    parts,  # parts of sums within kernels [S, P, ...], in which the last LayerNorm's weight and bias come first
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
    HIDDEN: tl.constexpr,
    EVEN: tl.constexpr,  # the last tile is full
):
    """dy and df of some tiles of TILE edges of one seed, and the sums over them. Rows past the end add zeros."""
    dtype: tl.constexpr = edges.dtype.element_ty
    seed = tl.program_id(1).to(tl.int64)
    gradient += seed * rows * SIZE
    edges += seed * rows * SIZE
    hidden += seed * rows * HIDDEN
    statistics += seed * rows * 4
    out_weight += seed * SIZE * MESSAGE
    out_bias += seed * SIZE
    norm_weight += seed * SIZE
    norm_bias += seed * SIZE
    feed_out_weight += seed * SIZE * FEED
    feed_out_bias += seed * SIZE
    feed_norm_weight += seed * SIZE
    last_gradient += seed * rows * SIZE
    feed_gradient += seed * rows * FEED
    parts += (seed * tl.num_programs(0) + tl.program_id(0)) * (3 * SIZE + FEED * (MESSAGE + 2))

    weight_sums = ()
    bias_sums = ()
    for _ in tl.static_range(CHUNKS):
        weight_sums = weight_sums + (tl.zeros((TILE // 2, CHUNK), tl.float32),)  # noqa: RUF005
        bias_sums = bias_sums + (tl.zeros((TILE // 2, CHUNK), tl.float32),)  # noqa: RUF005
    for start in tl.range(tl.program_id(0) * TILE, rows, tl.num_programs(0) * TILE, disable_licm=True):
        row = tl.arange(0, TILE).to(tl.int64) + start
        valid = (row < rows) | EVEN
        message = load_rows(hidden, row, valid, HIDDEN, MESSAGE, MESSAGE_PAD)
        feed = load_rows(hidden + MESSAGE, row, valid, HIDDEN, FEED, FEED_PAD)
        mean = tl.load(statistics + row * 4, mask=valid, other=0.0)
        inverse = tl.load(statistics + row * 4 + 1, mask=valid, other=0.0)
        last_mean = tl.load(statistics + row * 4 + 2, mask=valid, other=0.0)
        last_inverse = tl.load(statistics + row * 4 + 3, mask=valid, other=0.0)

        # Forward again to the last LayerNorm's normal.
        average = tl.zeros((TILE,), tl.float32)
        along = tl.zeros((TILE,), tl.float32)
        normals = ()
        new_weight_sums = ()
        new_bias_sums = ()
        for chunk in tl.static_range(CHUNKS):
            tile = before_norm(edges, row, valid, message, out_weight, out_bias, chunk, SIZE, CHUNK, MESSAGE, PRECISION)
            normal = standardise(tile, mean, inverse, chunk, SIZE, CHUNK)
            bias = load_vector(norm_bias, chunk, SIZE, CHUNK) + load_vector(feed_out_bias, chunk, SIZE, CHUNK)
            tile = normal * load_vector(norm_weight, chunk, SIZE, CHUNK) + bias
            tile = plus_feed(tile, feed, feed_out_weight, chunk, SIZE, CHUNK, FEED, PRECISION)
            normal = standardise(tile, last_mean, last_inverse, chunk, SIZE, CHUNK)
            g = load_edges(gradient, row, valid, chunk, SIZE, CHUNK).to(tl.float32)
            g = as_product(g, dtype, PRECISION)
            new_weight_sums = new_weight_sums + (add_over_edges(weight_sums[chunk], g * normal),)  # noqa: RUF005
            new_bias_sums = new_bias_sums + (add_over_edges(bias_sums[chunk], g),)  # noqa: RUF005
            g *= load_vector(feed_norm_weight, chunk, SIZE, CHUNK)
            average += tl.sum(g, axis=1)
            along += tl.sum(g * normal, axis=1)
            normals = normals + (normal,)  # noqa: RUF005
        weight_sums = new_weight_sums
        bias_sums = new_bias_sums
        average /= SIZE
        along /= SIZE

        # Back through it and the feed-forward's outer Linear.
        g_feed = tl.zeros((TILE, FEED_PAD), tl.float32)
        for chunk in tl.static_range(CHUNKS):
            g = load_edges(gradient, row, valid, chunk, SIZE, CHUNK).to(tl.float32)
            g *= load_vector(feed_norm_weight, chunk, SIZE, CHUNK)
            g = through_norm(g, normals[chunk], last_inverse, average, along, chunk, SIZE, CHUNK).to(dtype)
            store_chunk(last_gradient, row, valid, SIZE, g, chunk, SIZE)
            weight = load_tall(feed_out_weight, chunk, dtype, SIZE, CHUNK, FEED, FEED_PAD)
            g_feed = tl.dot(g, weight, g_feed, input_precision=PRECISION)
        g_feed = tl.where(feed.to(tl.float32) > 0.0, g_feed, 0.0)
        store_rows(feed_gradient, row, valid, FEED, g_feed, FEED)

    for chunk in tl.static_range(CHUNKS):
        store_sums(parts, weight_sums[chunk], chunk * CHUNK, 1, SIZE)
        store_sums(parts + SIZE, bias_sums[chunk], chunk * CHUNK, 1, SIZE)
