"""Relational attention, forward, in one kernel that writes nothing of the edges' size."""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels.tiles import (
    HeadTiles,
    cast_chunks,
    dot_precision,
    group_columns,
    load_chunks,
    load_matrix,
    project,
    spread_rows,
    sum_heads,
)


@triton.jit
def attention_forward_kernel(
    query,  # [S, G, NQ, H * D], rows query_stride apart
    key,  # [S, G, NK, H * D], likewise
    value,  # [S, G, NK, H * D]
    edges,  # [S, G, NQ, NK, E]
    weight,  # [S, 3 * H * D, E]
    mask,  # [S, G, NQ, NK] by strides
    messages,  # [S, G, NQ, H * D]
    log_sum,  # [S, G, NQ, H], base 2
    context,  # [S, G, NQ, H, E]: sum_j a_ij e_ij
    query_stride,
    key_stride,
    value_stride,
    graphs,
    queries,
    keys,
    mask_seed_stride,
    mask_graph_stride,
    mask_row_stride,
    mask_key_stride,
    scale,  # log2(e) / sqrt(D)
    HAS_MASK: tl.constexpr,
    SAVE_CONTEXT: tl.constexpr,
    ONE_KEY_BLOCK: tl.constexpr,
    ROW_RANGE: tl.constexpr,  # rows a program is responsible for
    ROWS: tl.constexpr,  # rows and keys of one tile
    KEYS: tl.constexpr,
    PRECISION: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PAD: tl.constexpr,
    GROUP_HEADS: tl.constexpr,
    EDGE_SIZE: tl.constexpr,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    """One head group of some rows of one graph: online softmax over blocks of keys."""
    GROUPS: tl.constexpr = (HEADS + GROUP_HEADS - 1) // GROUP_HEADS
    GROUP: tl.constexpr = GROUP_HEADS * HEAD_PAD
    WIDTH: tl.constexpr = HEADS * HEAD_SIZE
    TILE: tl.constexpr = ROWS * KEYS
    dtype: tl.constexpr = edges.dtype.element_ty

    group = tl.program_id(0) % GROUPS
    first_row = tl.program_id(0) // GROUPS * ROW_RANGE
    seed = tl.program_id(2).to(tl.int64)
    graph = seed * graphs + tl.program_id(1)
    query += graph * queries * query_stride
    key += graph * keys * key_stride
    value += graph * keys * value_stride
    messages += graph * queries * WIDTH
    edges += graph * queries * keys * EDGE_SIZE
    weight += seed * 3 * WIDTH * EDGE_SIZE
    log_sum += graph * queries * HEADS
    context += graph * queries * HEADS * EDGE_SIZE
    mask += seed * mask_seed_stride + tl.program_id(1).to(tl.int64) * mask_graph_stride

    columns, column_valid = group_columns(group, HEADS, HEAD_SIZE, HEAD_PAD, GROUP_HEADS)
    column_head = tl.arange(0, GROUP) // HEAD_PAD
    head = tl.arange(0, GROUP_HEADS)
    tile_row = tl.arange(0, TILE) // KEYS
    tile_key = tl.arange(0, TILE) % KEYS
    query_weight = cast_chunks(load_chunks(weight, columns, column_valid, EDGE_SIZE, CHUNK, CHUNKS), dtype)
    key_weight = cast_chunks(load_chunks(weight, WIDTH + columns, column_valid, EDGE_SIZE, CHUNK, CHUNKS), dtype)

    for row_start in range(first_row, tl.minimum(first_row + ROW_RANGE, queries), ROWS):
        rows = row_start + tl.arange(0, ROWS)
        edge_row = row_start + tile_row
        row_query = load_matrix(query, edge_row, edge_row < queries, columns, column_valid, query_stride).to(tl.float32)

        largest = tl.full((ROWS, GROUP_HEADS), float("-inf"), tl.float32)
        total = tl.zeros((ROWS, GROUP_HEADS), tl.float32)
        node_sum = tl.zeros((GROUP, ROWS * GROUP_HEADS), tl.float32)
        edge_sum = ()
        for _ in tl.static_range(CHUNKS):
            edge_sum = edge_sum + (tl.zeros((CHUNK, ROWS * GROUP_HEADS), tl.float32),)  # noqa: RUF005

        for key_start in range(0, KEYS if ONE_KEY_BLOCK else keys, KEYS):
            edge_key = key_start + tile_key
            key_valid = edge_key < keys
            edge_valid = (edge_row < queries) & key_valid
            edge = load_chunks(edges, edge_row * keys + edge_key, edge_valid, EDGE_SIZE, CHUNK, CHUNKS)
            edge_query = project(row_query, edge, query_weight, PRECISION)
            row_key = load_matrix(key, edge_key, key_valid, columns, column_valid, key_stride).to(tl.float32)
            edge_key_vector = project(row_key, edge, key_weight, PRECISION)
            scores = sum_heads(edge_query * edge_key_vector, GROUP_HEADS, HEAD_PAD) * scale  # [T, GH]
            present = edge_valid
            if HAS_MASK:
                where = edge_row * mask_row_stride + edge_key * mask_key_stride
                present &= tl.load(mask + where, mask=edge_valid, other=0) != 0
            scores = tl.where(present[:, None], scores, float("-inf"))

            scores = tl.reshape(scores, (ROWS, KEYS, GROUP_HEADS))
            new_largest = tl.maximum(largest, tl.max(scores, axis=1))
            finite = tl.where(new_largest == float("-inf"), 0.0, new_largest)
            shrink = tl.exp2(largest - finite)
            weights = tl.exp2(scores - finite[:, None, :])
            total = total * shrink + tl.sum(weights, axis=1)
            largest = new_largest

            blocks = spread_rows(tl.reshape(weights, (TILE, GROUP_HEADS)), ROWS, KEYS).to(dtype)
            shrink = tl.reshape(shrink, (ROWS * GROUP_HEADS,))[None, :]
            new_edge_sum = ()
            for chunk in tl.static_range(CHUNKS):
                update = tl.dot(tl.trans(edge[chunk]), blocks, edge_sum[chunk] * shrink, input_precision=PRECISION)
                new_edge_sum = new_edge_sum + (update,)  # noqa: RUF005
            edge_sum = new_edge_sum
            row_value = load_matrix(value, edge_key, key_valid, columns, column_valid, value_stride).to(dtype)
            node_sum = tl.dot(tl.trans(row_value), blocks, node_sum * shrink, input_precision=PRECISION)

        seen = total > 0.0
        inverse = tl.where(seen, 1.0 / tl.where(seen, total, 1.0), 0.0)  # [ROWS, GH]
        column_inverse = tl.reshape(inverse, (ROWS * GROUP_HEADS,))[None, :]
        result = node_sum * column_inverse  # [GROUP, ROWS * GH]
        context_row = row_start + tl.arange(0, ROWS * GROUP_HEADS) // GROUP_HEADS
        context_head = group * GROUP_HEADS + tl.arange(0, ROWS * GROUP_HEADS) % GROUP_HEADS
        context_valid = (context_row < queries) & (context_head < HEADS)
        for chunk in tl.static_range(CHUNKS):
            channels = chunk * CHUNK + tl.arange(0, CHUNK)
            mean_edge = (edge_sum[chunk] * column_inverse).to(dtype)  # [CHUNK, ROWS * GH]
            if SAVE_CONTEXT:
                where = (context_row * HEADS + context_head)[None, :] * EDGE_SIZE + channels[:, None]
                tl.store(context + where, mean_edge, mask=(channels < EDGE_SIZE)[:, None] & context_valid[None, :])
            value_weight = load_matrix(
                weight, 2 * WIDTH + columns, column_valid, channels, channels < EDGE_SIZE, EDGE_SIZE
            )
            result = tl.dot(value_weight.to(dtype), mean_edge, result, input_precision=PRECISION)
        result = tl.reshape(result, (GROUP, ROWS, GROUP_HEADS))
        result = tl.sum(tl.where(column_head[:, None, None] == head[None, None, :], result, 0.0), axis=2)
        row_valid = rows < queries
        tl.store(
            messages + rows[None, :] * WIDTH + columns[:, None],
            result.to(messages.dtype.element_ty),
            mask=row_valid[None, :] & column_valid[:, None],
        )
        heads = group * GROUP_HEADS + head
        tl.store(
            log_sum + rows[:, None] * HEADS + heads[None, :],
            tl.where(seen, largest + tl.log2(tl.where(seen, total, 1.0)), 0.0),
            mask=row_valid[:, None] & (heads < HEADS)[None, :],
        )


def attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    num_heads: int,
    save_context: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Messages [S, G, NQ, H * D], log-sum-exp [S, G, NQ, H] and context [S, G, NQ, H, E] (empty unless saved)."""
    seeds, graphs, queries, keys, edge_size = edges.shape
    width = query.shape[-1]
    tiles = HeadTiles(num_heads, width // num_heads, edge_size)
    messages = query.new_empty(query.shape)
    log_sum = query.new_empty(seeds, graphs, queries, num_heads, dtype=torch.float32)
    context = edges.new_empty((seeds, graphs, queries, num_heads, edge_size) if save_context else (seeds, 0))
    if messages.numel() == 0:
        return messages, log_sum, context
    options = launch_options(tiles, keys, edges.dtype)
    row_ranges = triton.cdiv(queries, options["ROW_RANGE"])
    mask_strides = (0, 0, 0, 0) if mask is None else mask.stride()
    attention_forward_kernel[(row_ranges * tiles.groups, graphs, seeds)](
        query,
        key,
        value,
        edges,
        weight,
        query if mask is None else mask.view(torch.uint8),
        messages,
        log_sum,
        context,
        query.stride(2),
        key.stride(2),
        value.stride(2),
        graphs,
        queries,
        keys,
        *mask_strides,
        math.log2(math.e) / math.sqrt(tiles.head_size),
        HAS_MASK=mask is not None,
        SAVE_CONTEXT=save_context,
        ONE_KEY_BLOCK=keys <= options["KEYS"],
        PRECISION=dot_precision(edges.dtype),
        **options,
        **tiles.constants(),
    )
    return messages, log_sum, context


def launch_options(tiles: HeadTiles, keys: int, dtype: torch.dtype) -> dict[str, int]:
    """Tile sizes and warps of the forward kernel."""
    rows = max(4, 16 // tiles.group_heads)
    return {"ROWS": rows, "KEYS": 16, "ROW_RANGE": rows, "num_warps": 4, "num_stages": 2}
