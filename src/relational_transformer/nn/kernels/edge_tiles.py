"""Pieces the edge update's kernels share: edge numbering, LayerNorm over chunks, the recomputed forward pass.

Edges of all graphs of a seed are numbered in a row, r = (graph * N + i) * N + j, so no tile is padded but the last.
"""

import triton
import triton.language as tl

from relational_transformer.nn.kernels.tiles import load_chunks, load_matrix


@triton.jit
def edge_ends(row, nodes):
    """Of edge (i, j) of a graph: the rows of node i, of node j, and of the reverse edge (j, i)."""
    node = row // nodes  # graph * N + i
    j = row - node * nodes
    graph = node // nodes
    sender = graph * nodes + j
    return node, sender, sender * nodes + node - graph * nodes


@triton.jit
def load_vector(pointer, chunk: tl.constexpr, SIZE: tl.constexpr, CHUNK: tl.constexpr):
    """A chunk [1, CHUNK] of a parameter vector, in float32."""
    channels = chunk * CHUNK + tl.arange(0, CHUNK)
    return tl.load(pointer + channels, mask=channels < SIZE, other=0.0).to(tl.float32)[None, :]


@triton.jit
def normalise(tiles, eps, dtype: tl.constexpr, SIZE: tl.constexpr, CHUNK: tl.constexpr):
    """(x - mean) / std along the channels of a chunked tile, and 1 / std [T, 1]; zero on padding channels."""
    mean = tl.sum(tiles[0], axis=1)
    for chunk in tl.static_range(1, len(tiles)):
        mean += tl.sum(tiles[chunk], axis=1)
    mean = (mean / SIZE)[:, None]
    centred = ()
    variance = tl.zeros((tiles[0].shape[0],), tl.float32)
    for chunk in tl.static_range(len(tiles)):
        channels = chunk * CHUNK + tl.arange(0, CHUNK)
        tile = tl.where((channels < SIZE)[None, :], tiles[chunk] - mean, 0.0)
        variance += tl.sum(tile * tile, axis=1)
        centred = centred + (tile,)  # noqa: RUF005
    inverse = tl.rsqrt(variance / SIZE + eps)[:, None]
    normal = ()
    for chunk in tl.static_range(len(tiles)):
        normal = normal + ((centred[chunk] * inverse).to(dtype),)  # noqa: RUF005
    return normal, inverse


@triton.jit
def normalise_gradient(scaled, normal, inverse, SIZE: tl.constexpr, CHUNK: tl.constexpr):
    """Through a normalisation with x^ its result: dx = (s - mean(s) - x^ mean(s x^)) / std, s the gradient of x^."""
    mean = tl.zeros((normal[0].shape[0],), tl.float32)
    along = tl.zeros((normal[0].shape[0],), tl.float32)
    for chunk in tl.static_range(len(normal)):
        mean += tl.sum(scaled[chunk], axis=1)
        along += tl.sum(scaled[chunk] * normal[chunk].to(tl.float32), axis=1)
    mean = (mean / SIZE)[:, None]
    along = (along / SIZE)[:, None]
    result = ()
    for chunk in tl.static_range(len(normal)):
        channels = chunk * CHUNK + tl.arange(0, CHUNK)
        tile = (scaled[chunk] - mean - normal[chunk].to(tl.float32) * along) * inverse
        result = result + (tl.where((channels < SIZE)[None, :], tile, 0.0),)  # noqa: RUF005
    return result


@triton.jit
def affine(normal, weight, bias, chunk: tl.constexpr, SIZE: tl.constexpr, CHUNK: tl.constexpr):
    """One chunk of what a LayerNorm returns: normal * weight + bias."""
    return normal[chunk].to(tl.float32) * load_vector(weight, chunk, SIZE, CHUNK) + load_vector(
        bias, chunk, SIZE, CHUNK
    )


@triton.jit
def expand(
    hidden,
    start,
    weight,
    chunk: tl.constexpr,
    HIDDEN: tl.constexpr,
    SIZE: tl.constexpr,
    CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One chunk of start + hidden [T, hidden] weight^T; weight [SIZE, HIDDEN]."""
    units = tl.arange(0, hidden.shape[1])
    channels = chunk * CHUNK + tl.arange(0, CHUNK)
    tile = load_matrix(weight, channels, channels < SIZE, units, units < HIDDEN, HIDDEN).to(hidden.dtype)
    return tl.dot(hidden, tl.trans(tile), start, input_precision=PRECISION)


@triton.jit
def message_hidden(
    edges,
    receivers,
    senders,
    edge_weight,
    reverse_weight,
    edge_weight_stride,
    reverse_weight_stride,
    row,
    row_valid,
    nodes,
    HIDDEN: tl.constexpr,
    HIDDEN_PAD: tl.constexpr,
    SIZE: tl.constexpr,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The edges of a tile, and relu(W_e e_ij + W_r e_ji + senders_j + receivers_i) [T, HIDDEN_PAD]."""
    receiver, sender, reverse = edge_ends(row, nodes)
    units = tl.arange(0, HIDDEN_PAD)
    unit_valid = units < HIDDEN
    hidden = load_matrix(receivers, receiver, row_valid, units, unit_valid, HIDDEN).to(tl.float32)
    hidden += load_matrix(senders, sender, row_valid, units, unit_valid, HIDDEN).to(tl.float32)
    own = load_chunks(edges, row, row_valid, SIZE, CHUNK, CHUNKS)
    for chunk in tl.static_range(CHUNKS):
        channels = chunk * CHUNK + tl.arange(0, CHUNK)
        channel_valid = channels < SIZE
        other = load_matrix(edges, reverse, row_valid, channels, channel_valid, SIZE)
        tile = load_matrix(edge_weight, units, unit_valid, channels, channel_valid, edge_weight_stride)
        hidden = tl.dot(own[chunk], tl.trans(tile.to(other.dtype)), hidden, input_precision=PRECISION)
        tile = load_matrix(reverse_weight, units, unit_valid, channels, channel_valid, reverse_weight_stride)
        hidden = tl.dot(other, tl.trans(tile.to(other.dtype)), hidden, input_precision=PRECISION)
    return own, tl.maximum(hidden, 0.0)


@triton.jit
def first_normal(
    own,
    message,
    out_weight,
    out_bias,
    eps,
    HIDDEN: tl.constexpr,
    SIZE: tl.constexpr,
    CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """z = W_5 m + b_5 + e, normalised, and 1 / std."""
    tiles = ()
    for chunk in tl.static_range(len(own)):
        start = own[chunk].to(tl.float32) + load_vector(out_bias, chunk, SIZE, CHUNK)
        tiles = tiles + (expand(message, start, out_weight, chunk, HIDDEN, SIZE, CHUNK, PRECISION),)  # noqa: RUF005
    return normalise(tiles, eps, own[0].dtype, SIZE, CHUNK)


@triton.jit
def feed_forward(
    normal,
    norm_weight,
    norm_bias,
    in_weight,
    in_bias,
    out_weight,
    out_bias,
    eps,
    HIDDEN: tl.constexpr,
    HIDDEN_PAD: tl.constexpr,
    SIZE: tl.constexpr,
    CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """relu(W_6 u + b_6) [T, HIDDEN_PAD] with u = normal * weight + bias; W_7 of it + b_7 + u, normalised; 1 / std."""
    dtype: tl.constexpr = normal[0].dtype
    units = tl.arange(0, HIDDEN_PAD)
    unit_valid = units < HIDDEN
    start = tl.load(in_bias + units, mask=unit_valid, other=0.0).to(tl.float32)[None, :]
    hidden = tl.broadcast_to(start, (normal[0].shape[0], HIDDEN_PAD))
    for chunk in tl.static_range(len(normal)):
        channels = chunk * CHUNK + tl.arange(0, CHUNK)
        tile = load_matrix(in_weight, units, unit_valid, channels, channels < SIZE, SIZE).to(dtype)
        middle = affine(normal, norm_weight, norm_bias, chunk, SIZE, CHUNK).to(dtype)
        hidden = tl.dot(middle, tl.trans(tile), hidden, input_precision=PRECISION)
    hidden = tl.maximum(hidden, 0.0)
    tiles = ()
    for chunk in tl.static_range(len(normal)):
        middle = affine(normal, norm_weight, norm_bias, chunk, SIZE, CHUNK)
        middle += load_vector(out_bias, chunk, SIZE, CHUNK)
        tiles = tiles + (  # noqa: RUF005
            expand(hidden.to(dtype), middle, out_weight, chunk, HIDDEN, SIZE, CHUNK, PRECISION),
        )
    last, inverse = normalise(tiles, eps, dtype, SIZE, CHUNK)
    return hidden, last, inverse
