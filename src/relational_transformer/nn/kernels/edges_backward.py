"""The edge update, backward, in three kernels over the edges and four products of cuBLAS.

From the edges, their hidden layers h = (m, f, 1) and the LayerNorms' means and deviations, what lay between is made
again: z = W_5 m + b_5 + e, what the first LayerNorm reads, and y = W_7 f + b_7 + u, what the last one does.

1. Feed: from the gradient of the new edges back to dy and f. Then sum h dy^T, for W_7 and b_7.
2. Message: from dy and df back to dz, in dy's place, and m. Then sum h dz^T, for W_5 and b_5.
3. dm_ij and dm_ji now lie side by side: de_ij = dz_ij + W_e^T dm_ij + W_r^T dm_ji is one product, added in place, and
   what W_e, W_r and W_6 get is another (`parameter_gradients` says how). A small kernel sums them for the nodes.

On request, one kernel by rows (`rows/`) does 1 and 2 and the first product.

So nothing of the edges' size is written but their gradient. The kernels' programs write their parts of the sums that
are no products; nothing is added by atomics: the same inputs give the same bits.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

from relational_transformer.nn.kernels.edge_parameters import sides_width
from relational_transformer.nn.kernels.edge_tiles import (
    EdgeSizes,
    add_over_edges,
    as_product,
    before_norm,
    both_weights,
    edge_ends,
    edge_sizes,
    in_float,
    load_edges,
    load_tall,
    load_vector,
    load_wide,
    plus_feed,
    standardise,
    store_sums,
    through_norm,
)
from relational_transformer.nn.kernels.outer_products import parts_of_outer_products, parts_of_rows
from relational_transformer.nn.kernels.rows.edges import differentiate_edge_rows
from relational_transformer.nn.kernels.seeds import differentiable_once
from relational_transformer.nn.kernels.tiles import (
    load_rows,
    one_warp,
    padded,
    programs_at_once,
    store_chunk,
    store_rows,
)

REGISTERS = 255  # all there are: with fewer, what does not fit into registers does not fit into the cache either
END_ROWS = 64


@torch.library.custom_op("relational_transformer::edge_update_backward", mutates_args=())
def edge_update_backward_operator(
    gradient: Tensor,
    edges: Tensor,
    hidden: Tensor,  # [S, G, N, N, K]
    statistics: Tensor,  # [S, G, N, N, 4]
    edge_weight: Tensor,
    reverse_weight: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    feed_in_weight: Tensor,
    feed_out_weight: Tensor,
    feed_out_bias: Tensor,
    feed_norm_weight: Tensor,
    by_rows: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the edges and of both their ends [S, G, N, 2 * M], and sums as `parameter_gradients` takes them."""
    gradient, edges = gradient.contiguous(), edges.contiguous()
    hidden, statistics = hidden.contiguous(), statistics.contiguous()
    message_size, feed_size = out_weight.shape[-1], feed_out_weight.shape[-1]
    sizes = edge_sizes(edges, message_size, feed_size)
    edge_gradient = torch.empty_like(edges)
    sides = edges.new_empty(sizes.seeds, sizes.rows, sides_width(message_size, feed_size))
    edge_rows, hidden_rows, gradient_rows = (t.flatten(1, 3) for t in (edges, hidden, edge_gradient))
    parts = parts_of_rows(sizes.rows, sizes.seeds * -(-sizes.edge_size // 128))
    if by_rows and sizes.rows > 0:
        read = out_weight, out_bias, norm_weight, norm_bias, feed_in_weight, feed_out_weight, feed_out_bias
        last_sums, within = differentiate_edge_rows(
            gradient, edges, (hidden, statistics), (*read, feed_norm_weight), edge_gradient, sides
        )
        unused = hidden.shape[-1] - message_size - feed_size - 1
        by_last = pad(last_sums, (0, 0, message_size, unused))
    else:
        read = out_weight, out_bias, norm_weight, norm_bias, feed_in_weight, feed_out_weight, feed_out_bias
        by_last, within = _in_two_kernels(
            gradient, edges, hidden, statistics, (*read, feed_norm_weight), edge_gradient, sides, sizes, parts
        )
    by_first = parts_of_outer_products(hidden_rows, gradient_rows, parts)
    by_edge = parts_of_outer_products(sides, edge_rows, parts)
    products = torch.cat([by_last, torch.cat([by_first, by_edge], dim=2).sum(1)], dim=1)
    weights = both_weights(edge_weight, reverse_weight, edges.dtype)
    gradient_rows.baddbmm_(sides[..., : 2 * message_size], weights)
    ends = edges.new_empty(*edges.shape[:3], 2 * message_size, dtype=torch.float32)
    if sizes.rows > 0:
        edge_backward_ends_kernel[(ends[..., 0].numel(),)](
            sides, ends, sizes.nodes,
            ROWS=END_ROWS, SIDES=sides.shape[-1], WIDTH=2 * message_size, WIDTH_PAD=padded(2 * message_size),
            num_warps=2,
        )  # fmt: skip
    return edge_gradient, ends, products, within


def _in_two_kernels(
    gradient: Tensor,
    edges: Tensor,
    hidden: Tensor,
    statistics: Tensor,
    parameters: tuple[Tensor, ...],
    edge_gradient: Tensor,
    sides: Tensor,
    sizes: EdgeSizes,
    parts: int,
) -> tuple[Tensor, Tensor]:
    """Write dz and the sides; return sum h dy^T [S, K, E] and the sums within kernels."""
    out_weight, out_bias, norm_weight, norm_bias, feed_in_weight, feed_out_weight, feed_out_bias, last = parameters
    out_weight, feed_in_weight, feed_out_weight = (
        weight.contiguous().to(edges.dtype) for weight in (out_weight, feed_in_weight, feed_out_weight)
    )
    out_bias, norm_weight, norm_bias, feed_out_bias, last = in_float(
        out_bias, norm_weight, norm_bias, feed_out_bias, last
    )
    programs, constants = sizes.programs(programs_at_once(REGISTERS)), sizes.constants()
    feed_gradient = edges.new_empty(sizes.seeds, sizes.rows, sizes.feed_size, dtype=torch.float32)
    new = edges.new_empty if sizes.rows > 0 else edges.new_zeros
    within_size = 3 * sizes.edge_size + sizes.feed_size * (sizes.message_size + 2)
    within = new((sizes.seeds, programs, within_size), dtype=torch.float32)
    if sizes.rows > 0:
        edge_backward_feed_kernel[(programs, sizes.seeds)](
            gradient, edges, hidden, statistics,
            out_weight, out_bias, norm_weight, norm_bias, feed_out_weight, feed_out_bias, last,
            edge_gradient, feed_gradient, within, sizes.rows,
            **constants, **one_warp(REGISTERS),
        )  # fmt: skip
    by_last = parts_of_outer_products(hidden.flatten(1, 3), edge_gradient.flatten(1, 3), parts)
    if sizes.rows > 0:
        edge_backward_message_kernel[(programs, sizes.seeds)](
            edges, hidden, statistics, out_weight, out_bias, norm_weight, feed_in_weight,
            feed_gradient, edge_gradient, sides, within, sizes.rows, sizes.nodes,
            **constants, SIDES=sides.shape[-1], **one_warp(REGISTERS),
        )  # fmt: skip
    return by_last.sum(1), within.sum(1)


@edge_update_backward_operator.register_fake
def _(gradient: Tensor, edges: Tensor, hidden: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    seeds, graphs, nodes, _, edge_size = edges.shape
    message_size, feed_size = rest[3].shape[-1], rest[8].shape[-1]
    shapes = (
        (seeds, graphs, nodes, 2 * message_size),
        (seeds, 2 * hidden.shape[-1] + sides_width(message_size, feed_size), edge_size),
        (seeds, 3 * edge_size + feed_size * (message_size + 2)),
    )
    return edges.new_empty(edges.shape), *(edges.new_empty(shape, dtype=torch.float32) for shape in shapes)


edge_update_backward = differentiable_once(edge_update_backward_operator)


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
    TILE: tl.constexpr, PRECISION: tl.constexpr, SIZE: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
    MESSAGE: tl.constexpr, MESSAGE_PAD: tl.constexpr, FEED: tl.constexpr, FEED_PAD: tl.constexpr, HIDDEN: tl.constexpr,
    EVEN: tl.constexpr,  # the last tile is full
):  # fmt: skip
    """dy, through the last LayerNorm, and df = [f > 0] W_7^T dy of some tiles of TILE edges of one seed, and the sums
    over them. Rows past the end add zeros."""
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
    rows, nodes,
    TILE: tl.constexpr, PRECISION: tl.constexpr, SIZE: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
    MESSAGE: tl.constexpr, MESSAGE_PAD: tl.constexpr, FEED: tl.constexpr, FEED_PAD: tl.constexpr, HIDDEN: tl.constexpr,
    EVEN: tl.constexpr,  # the last tile is full
    SIDES: tl.constexpr,
):  # fmt: skip
    """dz, through the first LayerNorm from du = dy + W_6^T df, dm = [m > 0] W_5^T dz and t = df / std(z) of some tiles
    of TILE edges of one seed, and sums over them. Rows past the end add zeros."""
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


@triton.jit
def edge_backward_ends_kernel(
    sides,  # (dm_ij, dm_ji, ...) [S * G * N, N, SIDES]
    ends,  # [S * G * N, WIDTH], in float32
    nodes,
    ROWS: tl.constexpr,
    SIDES: tl.constexpr,
    WIDTH: tl.constexpr,  # of dm_ij and dm_ji
    WIDTH_PAD: tl.constexpr,
):
    """sum_j dm_ij, for the receiver i, and sum_j dm_ji, for the sender i, of one node i, ROWS edges at a time."""
    node = tl.program_id(0).to(tl.int64)
    sides += node * nodes * SIDES
    total = tl.zeros((ROWS, WIDTH_PAD), tl.float32)
    for start in range(0, nodes, ROWS):
        j = start + tl.arange(0, ROWS)
        total += load_rows(sides, j, j < nodes, SIDES, WIDTH, WIDTH_PAD).to(tl.float32)
    columns = tl.arange(0, WIDTH_PAD)
    tl.store(ends + node * WIDTH + columns, tl.sum(total, axis=0), mask=columns < WIDTH)
