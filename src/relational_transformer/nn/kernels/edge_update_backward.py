"""The edge update, backward, in two passes over the edges.

From the edges, the two hidden layers m and f and the LayerNorms' means and deviations, what lay between is made again.
The first pass goes back from the new edges to z (what the first LayerNorm reads) and m; the second turns the hidden
layer's gradient round, de_ij = dz_ij + W_e^T dm_ij + W_r^T dm_ji, and needs all dm first.

Parameter gradients are sums over edges. Each program adds up its own edges and writes its part of them, packed as
`PackedGradients` says; one sum over the programs, in a fixed order, ends it.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels.edge_parameters import PackedGradients
from relational_transformer.nn.kernels.edge_update_forward import (
    EdgeSizes,
    contract,
    edge_ends,
    edge_sizes,
    load_parameter,
    load_vector,
    standardise,
)
from relational_transformer.nn.kernels.tiles import load_rows, store_rows


@triton.jit
def store_matrix(pointer, first, tile, ROWS: tl.constexpr, SIZE: tl.constexpr, LENGTH: tl.constexpr):
    """Put sums [ROWS, SIZE] into the packed rows first ... of LENGTH."""
    rows = tl.arange(0, tile.shape[0])
    store_rows(pointer + first * LENGTH, rows, rows < ROWS, LENGTH, tile, SIZE)


@triton.jit
def store_vector(pointer, row, values, SIZE: tl.constexpr, LENGTH: tl.constexpr):
    """Put a sum [SIZE] into one packed row of LENGTH."""
    channels = tl.arange(0, values.shape[0])
    tl.store(pointer + row * LENGTH + channels, values, mask=channels < SIZE)


@triton.jit
def through_norm(gradient, normal, inverse, SIZE: tl.constexpr):
    """Through a normalisation with x^ its result: dx = (g - mean(g) - x^ mean(g x^)) / std, g the gradient of x^."""
    mean = tl.sum(gradient, axis=1) / SIZE
    along = tl.sum(gradient * normal, axis=1) / SIZE
    channels = tl.arange(0, gradient.shape[1])
    result = (gradient - mean[:, None] - normal * along[:, None]) * inverse[:, None]
    return tl.where((channels < SIZE)[None, :], result, 0.0)


@triton.jit
def edge_update_backward_kernel(
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
    message_gradient,  # dm [S, R, M]
    parts,  # [S, P, PACKED, LENGTH]
    rows,
    PACKED: tl.constexpr,
    LENGTH: tl.constexpr,
    TILE: tl.constexpr,
    PRECISION: tl.constexpr,
    SIZE: tl.constexpr,
    SIZE_PAD: tl.constexpr,
    MESSAGE: tl.constexpr,
    MESSAGE_PAD: tl.constexpr,
    FEED: tl.constexpr,
    FEED_PAD: tl.constexpr,
):
    """First pass, for some tiles of TILE edges of one seed. Rows past the end have no gradient, and add nothing."""
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
    parts += (seed * tl.num_programs(0) + tl.program_id(0)) * PACKED * LENGTH

    feed_in_sum = tl.zeros((FEED_PAD, SIZE_PAD), tl.float32)
    feed_out_sum = tl.zeros((FEED_PAD, SIZE_PAD), tl.float32)
    feed_norm_bias_sum = tl.zeros((SIZE_PAD,), tl.float32)
    feed_norm_weight_sum = tl.zeros((SIZE_PAD,), tl.float32)
    feed_out_bias_sum = tl.zeros((SIZE_PAD,), tl.float32)
    norm_bias_sum = tl.zeros((SIZE_PAD,), tl.float32)
    norm_weight_sum = tl.zeros((SIZE_PAD,), tl.float32)
    out_bias_sum = tl.zeros((SIZE_PAD,), tl.float32)
    feed_in_bias_sum = tl.zeros((FEED_PAD,), tl.float32)
    for start in tl.range(tl.program_id(0) * TILE, rows, tl.num_programs(0) * TILE, disable_licm=True):
        row = tl.arange(0, TILE).to(tl.int64) + start
        valid = row < rows
        g = load_rows(gradient, row, valid, SIZE, SIZE, SIZE_PAD).to(tl.float32)
        edge = load_rows(edges, row, valid, SIZE, SIZE, SIZE_PAD).to(tl.float32)
        message = load_rows(messages, row, valid, MESSAGE, MESSAGE, MESSAGE_PAD)
        feed = load_rows(feeds, row, valid, FEED, FEED, FEED_PAD)
        mean = tl.load(statistics + row * 4, mask=valid, other=0.0)
        inverse = tl.load(statistics + row * 4 + 1, mask=valid, other=0.0)
        last_mean = tl.load(statistics + row * 4 + 2, mask=valid, other=0.0)
        last_inverse = tl.load(statistics + row * 4 + 3, mask=valid, other=0.0)

        # Forward once more: both normalisations.
        out = load_parameter(out_weight, MESSAGE, dtype, SIZE, SIZE_PAD, MESSAGE, MESSAGE_PAD)
        tile = edge + load_vector(out_bias, SIZE, SIZE_PAD)
        tile = tl.dot(message, tl.trans(out), tile, input_precision=PRECISION)
        normal = standardise(tile, mean, inverse, SIZE)
        scale = load_vector(norm_weight, SIZE, SIZE_PAD)
        middle = normal * scale + load_vector(norm_bias, SIZE, SIZE_PAD)
        feed_out = load_parameter(feed_out_weight, FEED, dtype, SIZE, SIZE_PAD, FEED, FEED_PAD)
        tile = middle + load_vector(feed_out_bias, SIZE, SIZE_PAD)
        tile = tl.dot(feed, tl.trans(feed_out), tile, input_precision=PRECISION)
        last = standardise(tile, last_mean, last_inverse, SIZE)

        # Back through the last LayerNorm and the feed-forward.
        feed_norm_bias_sum += tl.sum(g, axis=0)
        feed_norm_weight_sum += tl.sum(g * last, axis=0)
        g = through_norm(g * load_vector(feed_norm_weight, SIZE, SIZE_PAD), last, last_inverse, SIZE)
        feed_out_bias_sum += tl.sum(g, axis=0)
        low = g.to(dtype)
        feed_out_sum = tl.dot(tl.trans(feed), low, feed_out_sum, input_precision=PRECISION)
        hidden = contract(low, feed_out, PRECISION)
        hidden = tl.where(feed.to(tl.float32) > 0.0, hidden, 0.0)
        feed_in_bias_sum += tl.sum(hidden, axis=0)
        hidden = hidden.to(dtype)
        feed_in_sum = tl.dot(tl.trans(hidden), middle.to(dtype), feed_in_sum, input_precision=PRECISION)
        feed_in = load_parameter(feed_in_weight, SIZE, dtype, FEED, FEED_PAD, SIZE, SIZE_PAD)
        g = tl.dot(hidden, feed_in, g, input_precision=PRECISION)

        # Back through the first LayerNorm to z and m.
        norm_bias_sum += tl.sum(g, axis=0)
        norm_weight_sum += tl.sum(g * normal, axis=0)
        g = through_norm(g * scale, normal, inverse, SIZE)
        out_bias_sum += tl.sum(g, axis=0)
        low = g.to(dtype)
        store_rows(first_gradient, row, valid, SIZE, low, SIZE)
        hidden = contract(low, out, PRECISION)
        hidden = tl.where(message.to(tl.float32) > 0.0, hidden, 0.0)
        store_rows(message_gradient, row, valid, MESSAGE, hidden, MESSAGE)

    first: tl.constexpr = 3 * MESSAGE + 2 * FEED
    store_matrix(parts, 3 * MESSAGE, feed_in_sum, FEED, SIZE, LENGTH)
    store_matrix(parts, 3 * MESSAGE + FEED, feed_out_sum, FEED, SIZE, LENGTH)
    store_vector(parts, first, feed_norm_bias_sum, SIZE, LENGTH)
    store_vector(parts, first + 1, feed_norm_weight_sum, SIZE, LENGTH)
    store_vector(parts, first + 2, feed_out_bias_sum, SIZE, LENGTH)
    store_vector(parts, first + 3, norm_bias_sum, SIZE, LENGTH)
    store_vector(parts, first + 4, norm_weight_sum, SIZE, LENGTH)
    store_vector(parts, first + 5, out_bias_sum, SIZE, LENGTH)
    store_vector(parts, first + 6, feed_in_bias_sum, FEED, LENGTH)


@triton.jit
def edge_update_reverse_kernel(
    first_gradient,  # dz [S, R, E]
    message_gradient,  # dm [S, R, M]
    messages,  # m [S, R, M]
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
    SIZE_PAD: tl.constexpr,
    MESSAGE: tl.constexpr,
    MESSAGE_PAD: tl.constexpr,
    FEED: tl.constexpr,
    FEED_PAD: tl.constexpr,
):
    """Second pass: de_ij = dz_ij + W_e^T dm_ij + W_r^T dm_ji, and dW_e, dW_r, dW_5."""
    dtype: tl.constexpr = edges.dtype.element_ty
    seed = tl.program_id(1).to(tl.int64)
    edges += seed * rows * SIZE
    first_gradient += seed * rows * SIZE
    edge_gradient += seed * rows * SIZE
    message_gradient += seed * rows * MESSAGE
    messages += seed * rows * MESSAGE
    edge_weight += seed * edge_weight_seed_stride
    reverse_weight += seed * reverse_weight_seed_stride
    parts += (seed * tl.num_programs(0) + tl.program_id(0)) * PACKED * LENGTH

    own_sum = tl.zeros((MESSAGE_PAD, SIZE_PAD), tl.float32)
    other_sum = tl.zeros((MESSAGE_PAD, SIZE_PAD), tl.float32)
    out_sum = tl.zeros((MESSAGE_PAD, SIZE_PAD), tl.float32)
    for start in tl.range(tl.program_id(0) * TILE, rows, tl.num_programs(0) * TILE, disable_licm=True):
        row = tl.arange(0, TILE).to(tl.int64) + start
        valid = row < rows
        _, _, reverse = edge_ends(row, nodes)
        own = load_rows(message_gradient, row, valid, MESSAGE, MESSAGE, MESSAGE_PAD)
        other = load_rows(message_gradient, reverse, valid, MESSAGE, MESSAGE, MESSAGE_PAD)
        message = load_rows(messages, row, valid, MESSAGE, MESSAGE, MESSAGE_PAD)
        edge = load_rows(edges, row, valid, SIZE, SIZE, SIZE_PAD)
        g = load_rows(first_gradient, row, valid, SIZE, SIZE, SIZE_PAD)
        own_sum = tl.dot(tl.trans(own), edge, own_sum, input_precision=PRECISION)
        other_sum = tl.dot(tl.trans(other), edge, other_sum, input_precision=PRECISION)
        out_sum = tl.dot(tl.trans(message), g, out_sum, input_precision=PRECISION)
        weight = load_parameter(edge_weight, edge_weight_stride, dtype, MESSAGE, MESSAGE_PAD, SIZE, SIZE_PAD)
        g = tl.dot(own, weight, g.to(tl.float32), input_precision=PRECISION)
        weight = load_parameter(reverse_weight, reverse_weight_stride, dtype, MESSAGE, MESSAGE_PAD, SIZE, SIZE_PAD)
        g = tl.dot(other, weight, g, input_precision=PRECISION)
        store_rows(edge_gradient, row, valid, SIZE, g, SIZE)
    store_matrix(parts, 0, own_sum, MESSAGE, SIZE, LENGTH)
    store_matrix(parts, MESSAGE, other_sum, MESSAGE, SIZE, LENGTH)
    store_matrix(parts, 2 * MESSAGE, out_sum, MESSAGE, SIZE, LENGTH)


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
    edge_gradient = torch.empty_like(edges)
    message_gradient = torch.empty_like(messages)
    options, programs = backward_options(sizes)
    parts = edges.new_zeros(sizes.seeds, programs, packed.rows, packed.length, dtype=torch.float32)
    if edges.numel() > 0:
        first_gradient = torch.empty_like(edges)
        edge_weight, reverse_weight, *others = parameters
        constants = {**sizes.constants(), **options, "PACKED": packed.rows, "LENGTH": packed.length}
        edge_update_backward_kernel[(programs, sizes.seeds)](
            gradient,
            edges,
            messages,
            feeds,
            statistics,
            *others,
            first_gradient,
            message_gradient,
            parts,
            sizes.rows,
            **constants,
        )
        edge_update_reverse_kernel[(programs, sizes.seeds)](
            first_gradient,
            message_gradient,
            messages,
            edges,
            edge_weight,
            reverse_weight,
            edge_gradient,
            parts,
            *edge_weight.stride()[:2],
            *reverse_weight.stride()[:2],
            sizes.rows,
            sizes.nodes,
            **constants,
        )
    receivers_gradient = message_gradient.sum(3, dtype=torch.float32)
    senders_gradient = message_gradient.sum(2, dtype=torch.float32)
    return edge_gradient, receivers_gradient, senders_gradient, parts.sum(1)


def backward_options(sizes: EdgeSizes) -> tuple[dict[str, int], int]:
    """Tile size and warps of both passes, and their programs for each seed."""
    return {"TILE": 16, "num_warps": 8, "num_stages": 1}, sizes.programs(16, 132 * 3)
