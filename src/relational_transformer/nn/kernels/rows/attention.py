"""Attention by rows: `attention.cuh` laid out and launched."""

import ctypes
import math

import torch
from torch import Tensor

from relational_transformer.nn.kernels.whole_layer.arguments import address
from relational_transformer.nn.kernels.whole_layer.launching import Block, Kernel, launch
from relational_transformer.nn.kernels.whole_layer.layouts import tiles
from relational_transformer.nn.kernels.whole_layer.parameters import HEAD_SIZE

from .chunks import blocks_at_once, capacity, rows_of_chunk, shared_bytes

WIDE = 128
"""With more channels, a multiprocessor has the registers for one block; else for two."""


class Arguments(ctypes.Structure):
    """`rows::Attention`."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("query", "key", "value", "edges", "weights", "mask")),
        *((name, ctypes.c_void_p) for name in ("value_sums", "log_sums", "context")),
        *((name, ctypes.c_longlong) for name in ("mask_seed", "mask_graph", "mask_row", "mask_key")),
        *((name, ctypes.c_int) for name in ("query_stride", "key_stride", "value_stride")),
        *((name, ctypes.c_int) for name in ("graphs", "queries", "keys", "rows", "capacity")),
        ("scale", ctypes.c_float),
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
    seeds, graphs, queries, keys, channels = edges.shape
    sums = query.new_empty(query.shape, dtype=torch.float32)
    blocks = max(1, blocks_at_once(edges.device, 1 if channels > WIDE else 2) // seeds)
    rows = rows_of_chunk(graphs, queries, keys, blocks)
    packed = packed_weights(weight)
    tensors = {"query": query, "key": key, "value": value, "edges": edges, "weights": packed, "mask": mask}
    tensors |= {"value_sums": sums, "log_sums": log_sum, "context": context}
    names = ("mask_seed", "mask_graph", "mask_row", "mask_key")
    arguments = Arguments(
        **{name: address(tensor) for name, tensor in tensors.items()},
        **dict(zip(names, (0, 0, 0, 0) if mask is None else mask.stride(), strict=True)),
        **{f"{name}_stride": tensors[name].stride(2) for name in ("query", "key", "value")},
        graphs=graphs,
        queries=queries,
        keys=keys,
        rows=rows,
        capacity=capacity(keys, rows),
        scale=math.log2(math.e) / math.sqrt(HEAD_SIZE),
    )
    grid = min(blocks, graphs * -(-queries // rows)), seeds
    block = Block(2 * channels, shared_bytes(channels, keys, rows))
    launch(Kernel("attention_rows", channels=channels), grid, [arguments], edges.device, block)
    return sums


def packed_weights(weight: Tensor) -> Tensor:
    """Of each seed and head, its 16 queries and then its 16 keys as tiles of 8 outputs."""
    query_key = weight[:, : 2 * weight.shape[1] // 3].unflatten(1, (2, -1, HEAD_SIZE))  # [S, 2, H, D, E]
    return tiles(query_key.transpose(1, 2).flatten(0, 3))
