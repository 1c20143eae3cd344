"""The edge update by rows: `edge_update.cuh` and `edge_backward.cuh` laid out and launched."""

import ctypes
from functools import cache

import torch
from torch import Tensor

from relational_transformer.nn.kernels.whole_layer.arguments import address
from relational_transformer.nn.kernels.whole_layer.launching import Block, Kernel, launch
from relational_transformer.nn.kernels.whole_layer.layouts import pairs, tiles
from relational_transformer.nn.kernels.whole_layer.parameters import EDGE_HIDDEN, MESSAGE_HIDDEN

from .attention import aligned
from .chunks import blocks_at_once

THREADS, BLOCKS, BACKWARD_BLOCKS = 128, 3, 2
"""Threads of a block; blocks of a multiprocessor, forward and backward."""

TILE_EDGES = 16 * THREADS // 32
"""Edges that a block works on at once."""


class Arguments(ctypes.Structure):
    """`rows::EdgeUpdate`."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("edges", "receivers", "senders", "matrices", "vectors")),
        *((name, ctypes.c_void_p) for name in ("new_edges", "hidden", "statistics")),
        *((name, ctypes.c_int) for name in ("graphs", "nodes")),
    ]


def update_edge_rows(
    edges: Tensor,
    receivers: Tensor,
    senders: Tensor,
    parameters: tuple[Tensor, ...],
    output: Tensor,
    kept: tuple[Tensor, Tensor] | None,
) -> None:
    """Write new edges [S, G, N, N, E] and, if given, both hidden layers [..., 32] and the statistics [..., 4].

    Edges, receivers and senders [S, G, N, M] are contiguous; the parameters are those of `edge_update`, [S, ...].
    """
    seeds, graphs, nodes, _, channels = edges.shape
    edges = aligned(edges)
    matrices, vectors = packed_parameters(parameters, edges)
    hidden, statistics = kept or (None, None)
    tensors = {"edges": edges, "receivers": receivers, "senders": senders, "matrices": matrices, "vectors": vectors}
    tensors |= {"new_edges": output, "hidden": hidden, "statistics": statistics}
    arguments = Arguments(**{name: address(tensor) for name, tensor in tensors.items()}, graphs=graphs, nodes=nodes)
    blocks = max(1, blocks_at_once(edges.device, BLOCKS) // seeds)
    grid = min(blocks, -(-graphs * nodes * nodes // TILE_EDGES)), seeds
    block = Block(THREADS, shared_bytes(channels))
    launch(Kernel("edge_update_rows", channels=channels), grid, [arguments], edges.device, block)


class BackwardArguments(ctypes.Structure):
    """`rows::EdgeBackward`."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("gradient", "edges", "hidden", "statistics", "matrices", "vectors")),
        *((name, ctypes.c_void_p) for name in ("edge_gradient", "sides", "last_sums", "within")),
        *((name, ctypes.c_int) for name in ("graphs", "nodes")),
    ]


def differentiate_edge_rows(
    gradient: Tensor,
    edges: Tensor,
    kept: tuple[Tensor, Tensor],
    parameters: tuple[Tensor, ...],
    edge_gradient: Tensor,
    sides: Tensor,
) -> tuple[Tensor, Tensor]:
    """Write dz [S, G, N, N, E] and (dm_ij, dm_ji, t, 0 ...) [S, R, 48]; return sum (f, 1) dy^T [S, F + 1, E] and the
    sums within the kernel [S, 3 * E + F * (M + 2)].

    Kept are both hidden layers and the statistics; parameters are W_5, b_5, the first norm's weight and bias, W_6, W_7,
    b_7 and the last norm's weight.
    """
    seeds, graphs, nodes, _, channels = edges.shape
    gradient, edges = aligned(gradient), aligned(edges)
    out, out_bias, norm, norm_bias, feed_in, feed_out, feed_out_bias, last = parameters
    flat = torch.cat([matrix.flatten(1).to(edges.dtype) for matrix in (out, feed_in, feed_out)], dim=1)
    matrices = flat.index_select(1, order_of_backward_matrices(channels, edges.device))
    biases = norm_bias.float() + feed_out_bias.float()
    vectors = torch.cat([out_bias.float(), norm.float(), last.float(), biases], dim=1)
    blocks = max(1, blocks_at_once(edges.device, BACKWARD_BLOCKS) // seeds)
    blocks = min(blocks, -(-graphs * nodes * nodes // TILE_EDGES))
    last_sums = vectors.new_empty(seeds, blocks, EDGE_HIDDEN + 1, channels)
    within = vectors.new_empty(seeds, blocks, 3 * channels + EDGE_HIDDEN * (MESSAGE_HIDDEN + 2))
    tensors = (gradient, edges, *kept, matrices, vectors, edge_gradient, sides, last_sums, within)
    arguments = BackwardArguments(*map(address, tensors), graphs, nodes)
    block = Block(THREADS, backward_shared_bytes(channels))
    launch(Kernel("edge_backward_rows", channels=channels), (blocks, seeds), [arguments], edges.device, block)
    return last_sums.sum(1), within.sum(1)


def backward_shared_bytes(channels: int) -> int:
    """Matrices and vectors as forward, and the sums of all warps."""
    sums = (EDGE_HIDDEN + 1) * (channels + 2) + 3 * channels + EDGE_HIDDEN * (MESSAGE_HIDDEN + 2)
    columns = 4 * MESSAGE_HIDDEN + EDGE_HIDDEN
    return 2 * columns * channels + 4 * 4 * channels + THREADS // 32 * 4 * (-(-sums // 4) * 4 + 128)


@cache
def order_of_backward_matrices(channels: int, device: torch.device) -> Tensor:
    """Which number of W_5, W_6 and W_7, one after the other, stands where."""
    shapes = [(channels, MESSAGE_HIDDEN), (EDGE_HIDDEN, channels), (channels, EDGE_HIDDEN)]
    sizes = [rows * columns for rows, columns in shapes]
    numbered = torch.arange(sum(sizes)).split(sizes)
    out, feed_in, feed_out = (part.view(shape) for part, shape in zip(numbered, shapes, strict=True))
    packed = [
        pairs(out),
        pairs(torch.cat([feed_out, feed_out], dim=1)),
        pairs(torch.cat([feed_in.T, feed_in.T], dim=1)),
    ]
    packed += [tiles(feed_out.T, permuted=True), tiles(out.T, permuted=True)]
    return torch.cat(packed).to(device)


def shared_bytes(channels: int) -> int:
    """`kUpdateShared`: matrices in bfloat16, one of them twice, and vectors in float32."""
    columns = 4 * MESSAGE_HIDDEN + EDGE_HIDDEN
    return 2 * columns * channels + 4 * (6 * channels + EDGE_HIDDEN)


def packed_parameters(parameters: tuple[Tensor, ...], edges: Tensor) -> tuple[Tensor, Tensor]:
    """`UpdateMatrices` [S, size] in the edges' dtype, and `UpdateVectors` [S, size] in float32."""
    own, reverse, out, out_bias, norm, norm_bias, feed_in, feed_in_bias, feed_out, *others = parameters
    flat = [matrix.flatten(1).to(edges.dtype) for matrix in (own, reverse, feed_in, out, feed_out)]
    matrices = torch.cat(flat, dim=1).index_select(1, order_of_matrices(edges.shape[-1], edges.device))
    vectors = torch.cat([out_bias, norm, norm_bias, *others, feed_in_bias], dim=1).float()
    return matrices, vectors


@cache
def order_of_matrices(channels: int, device: torch.device) -> Tensor:
    """Which number of W_e, W_r, W_6, W_5 and W_7, one after the other, stands where. W_7 has half the columns of a
    fragment; the others are multiplied with zeros."""
    shapes = [(MESSAGE_HIDDEN, channels)] * 2 + [(EDGE_HIDDEN, channels)]
    shapes += [(channels, MESSAGE_HIDDEN), (channels, EDGE_HIDDEN)]
    sizes = [rows * columns for rows, columns in shapes]
    numbered = torch.arange(sum(sizes)).split(sizes)
    own, reverse, feed_in, out, feed_out = (part.view(shape) for part, shape in zip(numbered, shapes, strict=True))
    packed = [tiles(matrix, permuted=True) for matrix in (own, reverse, feed_in)]
    packed += [pairs(out), pairs(torch.cat([feed_out, feed_out], dim=1))]
    return torch.cat(packed).to(device)
