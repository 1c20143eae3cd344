"""The edge update, backward, by recomputation from the edges, in two passes.

The first goes back from the new edges to z (what the first LayerNorm reads) and the message's hidden layer m; the
second turns the hidden layer's gradient round, de_ij = dz_ij + W_e^T dm_ij + W_r^T dm_ji, and needs all dm first.

Parameter gradients are sums over edges. Each program adds up its own edges and writes its part of them, packed as
[E + 1, columns] with one column block a parameter (`PackedGradients`); one sum over the programs, in a fixed order, ends it.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels import edge_parameters
from relational_transformer.nn.kernels.edge_parameters import PackedGradients
from relational_transformer.nn.kernels.edge_tiles import (
    affine,
    edge_ends,
    feed_forward,
    first_normal,
    load_vector,
    message_hidden,
    normalise_gradient,
)
from relational_transformer.nn.kernels.edge_update_forward import EdgeSizes, edge_sizes
from relational_transformer.nn.kernels.tiles import load_matrix

FEED_NORM_BIAS = tl.constexpr(edge_parameters.FEED_NORM_BIAS)
FEED_NORM_WEIGHT = tl.constexpr(edge_parameters.FEED_NORM_WEIGHT)
FEED_OUT_BIAS = tl.constexpr(edge_parameters.FEED_OUT_BIAS)
NORM_BIAS = tl.constexpr(edge_parameters.NORM_BIAS)
NORM_WEIGHT = tl.constexpr(edge_parameters.NORM_WEIGHT)
OUT_BIAS = tl.constexpr(edge_parameters.OUT_BIAS)
VECTORS = tl.constexpr(edge_parameters.VECTORS)
PROGRAMS = 2 * 132


@triton.jit
def add_sum(sums, tile, column: tl.constexpr, PRECISION: tl.constexpr):
    """Add the sum over edges of a tile [T, CHUNK] to one column of sums [CHUNK, VECTORS]: a product with ones."""
    ones = tl.zeros((tile.shape[0], VECTORS), tl.float32) + (tl.arange(0, VECTORS) == column).to(tl.float32)[None, :]
    return tl.dot(tl.trans(tile), ones.to(tile.dtype), sums, input_precision=PRECISION)


@triton.jit
def add_norm_sums(sums, g, normal, column: tl.constexpr, PRECISION: tl.constexpr):
    """A LayerNorm's own gradients: the sum of g for its bias in `column`, that of g * normal for its weight next."""
    sums = add_sum(sums, g.to(normal.dtype), column, PRECISION)
    return add_sum(sums, (g * normal.to(tl.float32)).to(normal.dtype), column + 1, PRECISION)


@triton.jit
def zero_sums(CHUNKS: tl.constexpr, CHUNK: tl.constexpr, COLUMNS: tl.constexpr):
    sums = ()
    for _ in tl.static_range(CHUNKS):
        sums = sums + (tl.zeros((CHUNK, COLUMNS), tl.float32),)  # noqa: RUF005
    return sums


@triton.jit
def store_sums(pointer, sums, first_column: tl.constexpr, COLUMNS: tl.constexpr, SIZE: tl.constexpr):
    """Put sums [SIZE, C] in chunks into columns first_column ... of the packed [SIZE + 1, COLUMNS]."""
    CHUNK: tl.constexpr = sums[0].shape[0]
    columns = first_column + tl.arange(0, sums[0].shape[1])
    for chunk in tl.static_range(len(sums)):
        channels = chunk * CHUNK + tl.arange(0, CHUNK)
        where = channels[:, None] * COLUMNS + columns[None, :]
        tl.store(pointer + where, sums[chunk], mask=(channels < SIZE)[:, None] & (columns >= 0)[None, :])


@triton.jit
def edge_update_backward_kernel(
    gradient,  # [S, R, E]
    edges,  # [S, R, E]
    receivers,  # [S, G * N, M]
    senders,  # [S, G * N, M]
    edge_weight,  # [S, M, E] by strides
    reverse_weight,  # [S, M, E] by strides
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
    middle_gradient,  # dz [S, R, E]
    message_gradient,  # dm [S, R, M]
    messages,  # m [S, R, M]
    parts,  # [S, P, E + 1, COLUMNS]
    edge_weight_seed_stride,
    edge_weight_stride,
    reverse_weight_seed_stride,
    reverse_weight_stride,
    rows,
    nodes,
    eps,
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
    """First pass, for some tiles of TILE edges of one seed."""
    COLUMNS: tl.constexpr = 3 * MESSAGE_PAD + 2 * FEED_PAD + VECTORS
    dtype: tl.constexpr = edges.dtype.element_ty
    seed = tl.program_id(1).to(tl.int64)
    gradient += seed * rows * SIZE
    edges += seed * rows * SIZE
    middle_gradient += seed * rows * SIZE
    message_gradient += seed * rows * MESSAGE
    messages += seed * rows * MESSAGE
    receivers += seed * (rows // nodes) * MESSAGE
    senders += seed * (rows // nodes) * MESSAGE
    edge_weight += seed * edge_weight_seed_stride
    reverse_weight += seed * reverse_weight_seed_stride
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
    parts += (seed * tl.num_programs(0) + tl.program_id(0)) * (SIZE + 1) * COLUMNS

    units = tl.arange(0, MESSAGE_PAD)
    feed_units = tl.arange(0, FEED_PAD)
    feed_in_sums = zero_sums(CHUNKS, CHUNK, FEED_PAD)
    feed_out_sums = zero_sums(CHUNKS, CHUNK, FEED_PAD)
    vector_sums = zero_sums(CHUNKS, CHUNK, VECTORS)
    feed_in_bias_sum = tl.zeros((FEED_PAD,), tl.float32)
    for start in tl.range(tl.program_id(0) * TILE, rows, tl.num_programs(0) * TILE, disable_licm=True):
        row = tl.arange(0, TILE).to(tl.int64) + start
        valid = row < rows
        own, message = message_hidden(
            edges,
            receivers,
            senders,
            edge_weight,
            reverse_weight,
            edge_weight_stride,
            reverse_weight_stride,
            row,
            valid,
            nodes,
            MESSAGE,
            MESSAGE_PAD,
            SIZE,
            CHUNK,
            CHUNKS,
            PRECISION,
        )
        message_low = message.to(dtype)
        normal, inverse = first_normal(own, message_low, out_weight, out_bias, eps, MESSAGE, SIZE, CHUNK, PRECISION)
        feed, last, last_inverse = feed_forward(
            normal,
            norm_weight,
            norm_bias,
            feed_in_weight,
            feed_in_bias,
            feed_out_weight,
            feed_out_bias,
            eps,
            FEED,
            FEED_PAD,
            SIZE,
            CHUNK,
            PRECISION,
        )

        # Rows past the end read a zero gradient, and so add nothing to any sum.
        scaled = ()
        sums = ()
        for chunk in tl.static_range(CHUNKS):
            channels = chunk * CHUNK + tl.arange(0, CHUNK)
            g = load_matrix(gradient, row, valid, channels, channels < SIZE, SIZE).to(tl.float32)
            sums = sums + (add_norm_sums(vector_sums[chunk], g, last[chunk], FEED_NORM_BIAS, PRECISION),)  # noqa: RUF005
            scaled = scaled + (g * load_vector(feed_norm_weight, chunk, SIZE, CHUNK),)  # noqa: RUF005
        vector_sums = sums
        last_gradient = normalise_gradient(scaled, last, last_inverse, SIZE, CHUNK)

        feed_low = feed.to(dtype)
        feed_gradient = tl.zeros((TILE, FEED_PAD), tl.float32)
        sums = ()
        vectors = ()
        for chunk in tl.static_range(CHUNKS):
            channels = chunk * CHUNK + tl.arange(0, CHUNK)
            g = last_gradient[chunk].to(dtype)
            tile = load_matrix(feed_out_weight, channels, channels < SIZE, feed_units, feed_units < FEED, FEED)
            feed_gradient = tl.dot(g, tile.to(dtype), feed_gradient, input_precision=PRECISION)
            sums = sums + (tl.dot(tl.trans(g), feed_low, feed_out_sums[chunk], input_precision=PRECISION),)  # noqa: RUF005
            vectors = vectors + (add_sum(vector_sums[chunk], g, FEED_OUT_BIAS, PRECISION),)  # noqa: RUF005
        feed_out_sums = sums
        vector_sums = vectors
        feed_gradient = tl.where(feed > 0.0, feed_gradient, 0.0)
        feed_in_bias_sum += tl.sum(feed_gradient, axis=0)
        feed_gradient = feed_gradient.to(dtype)

        scaled = ()
        sums = ()
        vectors = ()
        for chunk in tl.static_range(CHUNKS):
            channels = chunk * CHUNK + tl.arange(0, CHUNK)
            middle = affine(normal, norm_weight, norm_bias, chunk, SIZE, CHUNK).to(dtype)
            sums = sums + (  # noqa: RUF005
                tl.dot(tl.trans(middle), feed_gradient, feed_in_sums[chunk], input_precision=PRECISION),
            )
            tile = load_matrix(feed_in_weight, feed_units, feed_units < FEED, channels, channels < SIZE, SIZE)
            g = tl.dot(feed_gradient, tile.to(dtype), last_gradient[chunk], input_precision=PRECISION)
            vectors = vectors + (add_norm_sums(vector_sums[chunk], g, normal[chunk], NORM_BIAS, PRECISION),)  # noqa: RUF005
            scaled = scaled + (g * load_vector(norm_weight, chunk, SIZE, CHUNK),)  # noqa: RUF005
        feed_in_sums = sums
        vector_sums = vectors
        first_gradient = normalise_gradient(scaled, normal, inverse, SIZE, CHUNK)

        hidden = tl.zeros((TILE, MESSAGE_PAD), tl.float32)
        vectors = ()
        for chunk in tl.static_range(CHUNKS):
            channels = chunk * CHUNK + tl.arange(0, CHUNK)
            g = first_gradient[chunk].to(dtype)
            where = row[:, None] * SIZE + channels[None, :]
            tl.store(middle_gradient + where, g, mask=valid[:, None] & (channels < SIZE)[None, :])
            tile = load_matrix(out_weight, channels, channels < SIZE, units, units < MESSAGE, MESSAGE)
            hidden = tl.dot(g, tile.to(dtype), hidden, input_precision=PRECISION)
            vectors = vectors + (add_sum(vector_sums[chunk], g, OUT_BIAS, PRECISION),)  # noqa: RUF005
        vector_sums = vectors
        hidden = tl.where(message > 0.0, hidden, 0.0).to(dtype)
        where = row[:, None] * MESSAGE + units[None, :]
        inside = valid[:, None] & (units < MESSAGE)[None, :]
        tl.store(message_gradient + where, hidden, mask=inside)
        tl.store(messages + where, message_low, mask=inside)

    store_sums(parts, feed_in_sums, 3 * MESSAGE_PAD, COLUMNS, SIZE)
    store_sums(parts, feed_out_sums, 3 * MESSAGE_PAD + FEED_PAD, COLUMNS, SIZE)
    store_sums(parts, vector_sums, 3 * MESSAGE_PAD + 2 * FEED_PAD, COLUMNS, SIZE)
    tl.store(parts + SIZE * COLUMNS + feed_units, feed_in_bias_sum)
    for start in tl.static_range(FEED_PAD, COLUMNS, VECTORS):
        tl.store(parts + SIZE * COLUMNS + start + tl.arange(0, VECTORS), tl.zeros((VECTORS,), tl.float32))


@triton.jit
def edge_update_reverse_kernel(
    middle_gradient,  # dz [S, R, E]
    message_gradient,  # dm [S, R, M]
    messages,  # m [S, R, M]
    edges,  # [S, R, E]
    edge_weight,  # [S, M, E] by strides
    reverse_weight,  # [S, M, E] by strides
    edge_gradient,  # [S, R, E]
    parts,  # [S, P, E + 1, COLUMNS]
    edge_weight_seed_stride,
    edge_weight_stride,
    reverse_weight_seed_stride,
    reverse_weight_stride,
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
):
    """Second pass: de_ij = dz_ij + W_e^T dm_ij + W_r^T dm_ji, and dW_e, dW_r."""
    COLUMNS: tl.constexpr = 3 * MESSAGE_PAD + 2 * FEED_PAD + VECTORS
    dtype: tl.constexpr = edges.dtype.element_ty
    seed = tl.program_id(1).to(tl.int64)
    edges += seed * rows * SIZE
    middle_gradient += seed * rows * SIZE
    edge_gradient += seed * rows * SIZE
    message_gradient += seed * rows * MESSAGE
    messages += seed * rows * MESSAGE
    edge_weight += seed * edge_weight_seed_stride
    reverse_weight += seed * reverse_weight_seed_stride
    parts += (seed * tl.num_programs(0) + tl.program_id(0)) * (SIZE + 1) * COLUMNS

    units = tl.arange(0, MESSAGE_PAD)
    unit_valid = units < MESSAGE
    edge_sums = zero_sums(CHUNKS, CHUNK, MESSAGE_PAD)
    reverse_sums = zero_sums(CHUNKS, CHUNK, MESSAGE_PAD)
    out_sums = zero_sums(CHUNKS, CHUNK, MESSAGE_PAD)
    for start in tl.range(tl.program_id(0) * TILE, rows, tl.num_programs(0) * TILE, disable_licm=True):
        row = tl.arange(0, TILE).to(tl.int64) + start
        valid = row < rows
        _, _, reverse = edge_ends(row, nodes)
        own_gradient = load_matrix(message_gradient, row, valid, units, unit_valid, MESSAGE)
        other_gradient = load_matrix(message_gradient, reverse, valid, units, unit_valid, MESSAGE)
        message = load_matrix(messages, row, valid, units, unit_valid, MESSAGE)
        new_edge_sums = ()
        new_reverse_sums = ()
        new_out_sums = ()
        for chunk in tl.static_range(CHUNKS):
            channels = chunk * CHUNK + tl.arange(0, CHUNK)
            channel_valid = channels < SIZE
            own = tl.trans(load_matrix(edges, row, valid, channels, channel_valid, SIZE))
            update = tl.dot(own, own_gradient, edge_sums[chunk], input_precision=PRECISION)
            new_edge_sums = new_edge_sums + (update,)  # noqa: RUF005
            update = tl.dot(own, other_gradient, reverse_sums[chunk], input_precision=PRECISION)
            new_reverse_sums = new_reverse_sums + (update,)  # noqa: RUF005
            g = load_matrix(middle_gradient, row, valid, channels, channel_valid, SIZE)
            update = tl.dot(tl.trans(g), message, out_sums[chunk], input_precision=PRECISION)
            new_out_sums = new_out_sums + (update,)  # noqa: RUF005
            tile = load_matrix(edge_weight, units, unit_valid, channels, channel_valid, edge_weight_stride)
            g = tl.dot(own_gradient, tile.to(dtype), g.to(tl.float32), input_precision=PRECISION)
            tile = load_matrix(reverse_weight, units, unit_valid, channels, channel_valid, reverse_weight_stride)
            g = tl.dot(other_gradient, tile.to(dtype), g, input_precision=PRECISION)
            where = row[:, None] * SIZE + channels[None, :]
            tl.store(edge_gradient + where, g.to(dtype), mask=valid[:, None] & channel_valid[None, :])
        edge_sums = new_edge_sums
        reverse_sums = new_reverse_sums
        out_sums = new_out_sums
    store_sums(parts, edge_sums, 0, COLUMNS, SIZE)
    store_sums(parts, reverse_sums, MESSAGE_PAD, COLUMNS, SIZE)
    store_sums(parts, out_sums, 2 * MESSAGE_PAD, COLUMNS, SIZE)


def edge_update_backward(
    gradient: Tensor, edges: Tensor, receivers: Tensor, senders: Tensor, parameters: list[Tensor], eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of edges, receivers and senders, and those of the parameters as `PackedGradients` lays them out."""
    sizes = edge_sizes(edges, receivers, parameters[7])
    seeds, graphs, nodes, _, edge_size = edges.shape
    columns = PackedGradients(edge_size, sizes.message_size, sizes.feed_size).columns
    if edges.numel() == 0:
        packed = edges.new_zeros(seeds, edge_size + 1, columns, dtype=torch.float32)
        return torch.zeros_like(edges), torch.zeros_like(receivers), torch.zeros_like(senders), packed
    options, programs = backward_options(sizes)
    middle_gradient = torch.empty_like(edges)
    edge_gradient = torch.empty_like(edges)
    message_gradient = edges.new_empty(seeds, graphs, nodes, nodes, sizes.message_size)
    messages = torch.empty_like(message_gradient)
    parts = edges.new_empty(seeds, programs, edge_size + 1, columns, dtype=torch.float32)
    strides = (*parameters[0].stride()[:2], *parameters[1].stride()[:2])
    edge_update_backward_kernel[(programs, seeds)](
        gradient,
        edges,
        receivers,
        senders,
        *parameters,
        middle_gradient,
        message_gradient,
        messages,
        parts,
        *strides,
        sizes.rows,
        nodes,
        eps,
        **options,
        **sizes.constants(),
    )
    edge_update_reverse_kernel[(programs, seeds)](
        middle_gradient,
        message_gradient,
        messages,
        edges,
        *parameters[:2],
        edge_gradient,
        parts,
        *strides,
        sizes.rows,
        nodes,
        **options,
        **sizes.constants(),
    )
    receivers_gradient = message_gradient.sum(3, dtype=torch.float32).to(receivers.dtype)
    senders_gradient = message_gradient.sum(2, dtype=torch.float32).to(senders.dtype)
    return edge_gradient, receivers_gradient, senders_gradient, parts.sum(1)


def backward_options(sizes: EdgeSizes) -> tuple[dict[str, int], int]:
    """Tile size and warps, and the number of programs that share the edges of a seed."""
    tile = 64
    programs = max(1, min(triton.cdiv(sizes.rows, tile), triton.cdiv(PROGRAMS, sizes.seeds)))
    return {"TILE": tile, "num_warps": 8, "num_stages": 1}, programs
