"""Attention by rows: `attention.cuh` and `attention_backward.cuh` laid out and launched."""

import ctypes
import math
from functools import cache

import torch
from torch import Tensor

from relational_transformer.nn.kernels.whole_layer.arguments import address
from relational_transformer.nn.kernels.whole_layer.launching import Block, Kernel, launch
from relational_transformer.nn.kernels.whole_layer.layouts import neighbours, tiles
from relational_transformer.nn.kernels.whole_layer.parameters import HEAD_SIZE

from .chunks import backward_shared_bytes, blocks_at_once, capacity, rows_of_chunk, shared_bytes

WIDE = 128
"""With more channels, a multiprocessor has the registers for one block; else for two."""


MASK_STRIDES = ("mask_seed", "mask_graph", "mask_row", "mask_key")


class Attended(ctypes.Structure):
    """`rows::Attended`."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("query", "key", "value", "edges", "weights", "mask")),
        *((name, ctypes.c_longlong) for name in MASK_STRIDES),
        *((name, ctypes.c_int) for name in ("query_stride", "key_stride", "value_stride")),
        *((name, ctypes.c_int) for name in ("graphs", "queries", "keys")),
        *((name, ctypes.c_int) for name in ("first_graph", "some_graphs", "first_row", "some_rows")),
        *((name, ctypes.c_int) for name in ("rows", "capacity")),
    ]


class Attention(ctypes.Structure):
    """`rows::Attention`."""

    _fields_ = [
        ("of", Attended),
        *((name, ctypes.c_void_p) for name in ("value_sums", "log_sums", "context")),
        ("scale", ctypes.c_float),
    ]


class AttentionBackward(ctypes.Structure):
    """`rows::AttentionBackward`."""

    _fields_ = [
        ("of", Attended),
        *((name, ctypes.c_void_p) for name in ("gradient", "lifted", "log_sums", "delta")),
        *((name, ctypes.c_void_p) for name in ("query_gradient", "edge_gradient", "pairs", "attention")),
    ]


def attend_rows(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    log_sum: Tensor,
    context: Tensor,
) -> Tensor:
    """Write log-sum-exp [S, G, NQ, H] and context [S, G, NQ, H, E], and return sum_j a_ij v_j [S, G, NQ, H * D].

    Queries [S, G, NQ, H * D], keys and values have rows a constant stride apart; edges [S, G, NQ, NK, E] and the weight
    [S, 3 * H * D, E] are contiguous; the mask [S, G, NQ, NK] may have any strides.
    """
    channels = edges.shape[-1]
    query, key, value, edges = (aligned(tensor) for tensor in (query, key, value, edges))
    sums = query.new_empty(query.shape, dtype=torch.float32)
    packed = packed_weights(weight)
    attended, grid = attended_by(query, key, value, edges, packed, mask, (0, edges.shape[1], 0, edges.shape[2]))
    scale = math.log2(math.e) / math.sqrt(HEAD_SIZE)
    arguments = Attention(attended, *map(address, (sums, log_sum, context)), scale)
    block = Block(2 * channels, shared_bytes(channels, edges.shape[3], attended.rows))
    launch(Kernel("attention_rows", channels=channels), grid, [arguments], edges.device, block)
    return sums


def differentiate_rows(
    attended: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None],
    part: tuple[int, int, int, int],
    given: tuple[Tensor, Tensor, Tensor, Tensor],
    made: tuple[Tensor, Tensor, Tensor, Tensor],
) -> None:
    """Of a part of the edges, [S, C, rows, NK], write dq_i, the edges' gradient through the values, dq_ij and dk_ij
    side by side [..., 2 * H * D], and a_ij [..., H].

    Attended are queries, keys, values, edges, weight and mask as in `attend_rows`; given are g [S, G, NQ, H * D], u
    [S, G, NQ, H, E], log-sum-exp [S, G, NQ, H] and delta, likewise, all contiguous.
    """
    query, key, value, edges = (aligned(tensor) for tensor in attended[:4])
    weight, mask = attended[4:]
    channels = edges.shape[-1]
    packed = packed_weights(weight)
    of, grid = attended_by(query, key, value, edges, packed, mask, part)
    arguments = AttentionBackward(of, *map(address, (*given, *made)))
    block = Block(2 * channels, backward_shared_bytes(channels, edges.shape[3], of.rows))
    launch(Kernel("attention_backward_rows", channels=channels), grid, [arguments], edges.device, block)


def attended_by(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Tensor,
    packed: Tensor,
    mask: Tensor | None,
    part: tuple[int, int, int, int],
) -> tuple[Attended, tuple[int, int]]:
    """The inputs of a pass over some edges, and the grid of blocks that share them. Of every seed, it goes over a
    number of graphs from a first one on, and of those over a number of rows from a first one on: `part`."""
    seeds, graphs, queries, keys, channels = edges.shape
    first_graph, some_graphs, first_row, some_rows = part
    blocks = max(1, blocks_at_once(edges.device, 1 if channels > WIDE else 2) // seeds)
    rows = rows_of_chunk(some_graphs, some_rows, keys, blocks)
    nodes = {"query": query, "key": key, "value": value}
    attended = Attended(
        **{name: address(tensor) for name, tensor in nodes.items()},
        edges=address(edges),
        weights=address(packed),
        mask=address(mask),
        **dict(zip(MASK_STRIDES, (0, 0, 0, 0) if mask is None else mask.stride(), strict=True)),
        **{f"{name}_stride": tensor.stride(2) for name, tensor in nodes.items()},
        graphs=graphs,
        queries=queries,
        keys=keys,
        first_graph=first_graph,
        some_graphs=some_graphs,
        first_row=first_row,
        some_rows=some_rows,
        rows=rows,
        capacity=capacity(keys, rows),
    )
    return attended, (min(blocks, some_graphs * -(-some_rows // rows)), seeds)


def aligned(tensor: Tensor) -> Tensor:
    """The tensor itself if its rows begin at multiples of 16 bytes, as the kernels load them, else a copy."""
    if tensor.data_ptr() % 16 == 0 and tensor.stride(2) % 8 == 0:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def packed_weights(weight: Tensor) -> Tensor:
    """Of [S, 3 * H * D, E] what the kernels read, [S, 2 * H * D * E]."""
    return weight.flatten(1).index_select(1, order_of_weights(weight.shape[-1], weight.device))


@cache
def order_of_weights(channels: int, device: torch.device) -> Tensor:
    """Of each head, its 16 queries and then its 16 keys as tiles of 8 outputs, four neighbours for a lane."""
    numbered = torch.arange(2 * channels**2).view(2, -1, HEAD_SIZE, channels)  # [2, H, D, E]
    return tiles(neighbours(numbered.transpose(0, 1).flatten(0, 2))).to(device)
