"""How blocks share out the rows of all graphs."""

import torch

from relational_transformer.nn.kernels.whole_layer.parameters import HEAD_SIZE

CHUNK_EDGES = 128
"""Edges that a block works on at once, unless a single row has more."""

ATTENTION_ROW = 24
"""`kAttentionRow`."""

EMULATED_BLOCKS = 3
"""Blocks at once where there is no device."""


def blocks_at_once(device: torch.device, of_multiprocessor: int) -> int:
    """The number of blocks that a device runs at the same time."""
    if device.type != "cuda":
        return EMULATED_BLOCKS
    return torch.cuda.get_device_properties(device).multi_processor_count * of_multiprocessor


def capacity(keys: int, rows: int) -> int:
    """Edges of a chunk, up to a multiple of 16.

    >>> capacity(24, 4), capacity(33, 3)
    (96, 112)
    """
    return -(-rows * keys // 16) * 16


def shared_bytes(channels: int, keys: int, rows: int) -> int:
    """`AttentionShared`: two chunks of edges, scores and weights of all heads."""
    heads, edges = channels // HEAD_SIZE, capacity(keys, rows)
    return 2 * edges * channels * 2 + heads * edges * 4 + rows * heads * (capacity(keys, 1) + 8) * 2


def backward_shared_bytes(channels: int, keys: int, rows: int) -> int:
    """`BackwardShared`: two chunks of edges and of the rows' u, the weights' gradients of all heads, the weights."""
    heads, edges = channels // HEAD_SIZE, capacity(keys, rows)
    return 2 * (edges + rows * heads) * channels * 2 + heads * (edges + 4) * 4 + edges * ATTENTION_ROW * 2


def rows_of_chunk(graphs: int, queries: int, keys: int, blocks: int) -> int:
    """Rows of a chunk so that `blocks` blocks, which take chunks in turn, are done soonest. Of a chunk, each 16 edges
    begun and what it has to wait for take about the same time.

    >>> rows_of_chunk(128, 24, 24, 264), rows_of_chunk(32, 64, 64, 132), rows_of_chunk(4, 256, 256, 132)
    (4, 2, 1)
    """

    def time(rows: int) -> int:
        chunks = graphs * -(-queries // rows)
        return -(-chunks // blocks) * (capacity(keys, rows) // 16 + 1)

    return min(range(1, min(queries, max(1, CHUNK_EDGES // keys)) + 1), key=time)
