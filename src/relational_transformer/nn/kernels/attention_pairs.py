"""The core of the attention's backward pass: dq_ij, dk_ij and the gradients of the nodes."""

import triton
import triton.language as tl

from relational_transformer.nn.kernels.tiles import (
    cast_chunks,
    gather_rows,
    group_columns,
    load_chunks,
    load_matrix,
    project,
    spread_heads,
    sum_heads,
)

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def attention_pairs_kernel(
    gradient,  # g [S, G, NQ, H * D]
    query,  # [S, G, NQ, H * D], rows query_stride apart
    key,  # [S, G, NK, H * D], likewise
    value,  # [S, G, NK, H * D]
    edges,  # [S, G, NQ, NK, E]
    weight,  # [S, 3 * H * D, E]
    mask,  # [S, G, NQ, NK] by strides
    log_sum,  # [S, G, NQ, H], base 2
    delta,  # [S, G, NQ, H]
    lifted,  # u [S, G, NQ, H, E]
    query_gradient,  # [key blocks, S, G, NQ, H * D]
    key_gradient,  # [row ranges, S, G, NK, H * D]
    value_gradient,  # [row ranges, S, G, NK, H * D]
    pairs,  # dq_ij, dk_ij [S, C, NQ * NK, 2 * H * D] of the graphs first ... first + C
    attention,  # a_ij [S, C, NQ * NK, H]
    query_stride,
    key_stride,
    value_stride,
    first,
    count,
    seeds,
    graphs,
    queries,
    keys,
    mask_seed_stride,
    mask_graph_stride,
    mask_row_stride,
    mask_key_stride,
    scale,  # 1 / sqrt(D)
    HAS_MASK: tl.constexpr,
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
    """One head group of one block of keys in some rows of one graph."""
    GROUPS: tl.constexpr = (HEADS + GROUP_HEADS - 1) // GROUP_HEADS
    GROUP: tl.constexpr = GROUP_HEADS * HEAD_PAD
    WIDTH: tl.constexpr = HEADS * HEAD_SIZE
    TILE: tl.constexpr = ROWS * KEYS
    dtype: tl.constexpr = edges.dtype.element_ty

    group = tl.program_id(0) % GROUPS
    key_blocks = (keys + KEYS - 1) // KEYS
    key_block = tl.program_id(0) // GROUPS % key_blocks
    row_range = tl.program_id(0) // GROUPS // key_blocks
    seed = tl.program_id(2).to(tl.int64)
    graph = seed * graphs + first + tl.program_id(1)
    buffer = seed * count + tl.program_id(1)
    gradient += graph * queries * WIDTH
    query += graph * queries * query_stride
    key += graph * keys * key_stride
    value += graph * keys * value_stride
    edges += graph * queries * keys * EDGE_SIZE
    weight += seed * 3 * WIDTH * EDGE_SIZE
    mask += seed * mask_seed_stride + (first + tl.program_id(1)).to(tl.int64) * mask_graph_stride
    log_sum += graph * queries * HEADS
    delta += graph * queries * HEADS
    lifted += graph * queries * HEADS * EDGE_SIZE
    query_gradient += (key_block.to(tl.int64) * seeds * graphs + graph) * queries * WIDTH
    key_gradient += (row_range.to(tl.int64) * seeds * graphs + graph) * keys * WIDTH
    value_gradient += (row_range.to(tl.int64) * seeds * graphs + graph) * keys * WIDTH
    pairs += buffer * queries * keys * 2 * WIDTH
    attention += buffer * queries * keys * HEADS

    columns, column_valid = group_columns(group, HEADS, HEAD_SIZE, HEAD_PAD, GROUP_HEADS)
    heads = group * GROUP_HEADS + tl.arange(0, GROUP_HEADS)
    head_valid = heads < HEADS
    query_weight = cast_chunks(load_chunks(weight, columns, column_valid, EDGE_SIZE, CHUNK, CHUNKS), dtype)
    key_weight = cast_chunks(load_chunks(weight, WIDTH + columns, column_valid, EDGE_SIZE, CHUNK, CHUNKS), dtype)

    tile_row = tl.arange(0, TILE) // KEYS
    edge_key = key_block * KEYS + tl.arange(0, TILE) % KEYS
    key_valid = edge_key < keys
    key_sum = tl.zeros((TILE, GROUP), tl.float32)
    value_sum = tl.zeros((TILE, GROUP), tl.float32)

    first_row = row_range * ROW_RANGE
    for row_start in range(first_row, tl.minimum(first_row + ROW_RANGE, queries), ROWS):
        edge_row = row_start + tile_row
        row_valid = edge_row < queries
        edge_valid = row_valid & key_valid
        edge_index = edge_row * keys + edge_key
        edge = load_chunks(edges, edge_index, edge_valid, EDGE_SIZE, CHUNK, CHUNKS)
        row_query = load_matrix(query, edge_row, row_valid, columns, column_valid, query_stride).to(tl.float32)
        edge_query = project(row_query, edge, query_weight, PRECISION)
        row_key = load_matrix(key, edge_key, key_valid, columns, column_valid, key_stride).to(tl.float32)
        edge_key_vector = project(row_key, edge, key_weight, PRECISION)

        present = edge_valid
        if HAS_MASK:
            where = edge_row * mask_row_stride + edge_key * mask_key_stride
            present &= tl.load(mask + where, mask=edge_valid, other=0) != 0
        scores = sum_heads(edge_query * edge_key_vector, GROUP_HEADS, HEAD_PAD) * (scale * LOG2_E)
        row_log_sum = load_matrix(log_sum, edge_row, row_valid, heads, head_valid, HEADS)
        weights = tl.where(present[:, None], tl.exp2(scores - row_log_sum), 0.0)  # a_ij [T, GH]

        lifted_row = row_start + tl.arange(0, ROWS * GROUP_HEADS) // GROUP_HEADS
        lifted_head = group * GROUP_HEADS + tl.arange(0, ROWS * GROUP_HEADS) % GROUP_HEADS
        lifted_valid = (lifted_row < queries) & (lifted_head < HEADS)
        u = load_chunks(lifted, lifted_row * HEADS + lifted_head, lifted_valid, EDGE_SIZE, CHUNK, CHUNKS)
        every_row = project(tl.zeros((TILE, ROWS * GROUP_HEADS), tl.float32), edge, u, PRECISION)
        row_gradient = load_matrix(gradient, edge_row, row_valid, columns, column_valid, WIDTH).to(tl.float32)
        row_value = load_matrix(value, edge_key, key_valid, columns, column_valid, value_stride).to(tl.float32)
        weights_gradient = sum_heads(row_gradient * row_value, GROUP_HEADS, HEAD_PAD)
        weights_gradient += gather_rows(every_row, ROWS, KEYS)  # da_ij [T, GH]
        row_delta = load_matrix(delta, edge_row, row_valid, heads, head_valid, HEADS)
        scores_gradient = spread_heads(weights * (weights_gradient - row_delta) * scale, HEAD_PAD)  # [T, GROUP]

        edge_query_gradient = scores_gradient * edge_key_vector
        edge_key_gradient = scores_gradient * edge_query
        key_sum += edge_key_gradient
        value_sum += spread_heads(weights, HEAD_PAD) * row_gradient
        where = edge_index[:, None] * (2 * WIDTH) + columns[None, :]
        where_valid = edge_valid[:, None] & column_valid[None, :]
        tl.store(pairs + where, edge_query_gradient.to(dtype), mask=where_valid)
        tl.store(pairs + WIDTH + where, edge_key_gradient.to(dtype), mask=where_valid)
        where = edge_index[:, None] * HEADS + heads[None, :]
        tl.store(attention + where, weights.to(dtype), mask=edge_valid[:, None] & head_valid[None, :])

        rows = row_start + tl.arange(0, ROWS)
        row_sum = tl.sum(tl.reshape(edge_query_gradient, (ROWS, KEYS, GROUP)), axis=1)
        tl.store(
            query_gradient + rows[:, None] * WIDTH + columns[None, :],
            row_sum.to(query_gradient.dtype.element_ty),
            mask=(rows < queries)[:, None] & column_valid[None, :],
        )

    sum_keys = key_block * KEYS + tl.arange(0, KEYS)
    where = sum_keys[:, None] * WIDTH + columns[None, :]
    where_valid = (sum_keys < keys)[:, None] & column_valid[None, :]
    key_sum = tl.sum(tl.reshape(key_sum, (ROWS, KEYS, GROUP)), axis=0)
    value_sum = tl.sum(tl.reshape(value_sum, (ROWS, KEYS, GROUP)), axis=0)
    tl.store(key_gradient + where, key_sum.to(key_gradient.dtype.element_ty), mask=where_valid)
    tl.store(value_gradient + where, value_sum.to(value_gradient.dtype.element_ty), mask=where_valid)
