"""The core of the attention's backward pass: dq_ij, dk_ij and the gradients of the nodes."""

import triton
import triton.language as tl

from relational_transformer.nn.kernels.tiles import (
    group_columns,
    load_columns,
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
    through_edges,  # u_i . e_ij [S, C, rows * NK, H], rows as in `Part`
    mask,  # [S, G, NQ, NK] by strides
    log_sum,  # [S, G, NQ, H], base 2
    delta,  # [S, G, NQ, H]
    query_gradient,  # [SPLITS, S, G, NQ, H * D]: to be summed over the parts of the keys
    pairs,  # in: W_q e_ij and W_k e_ij, out: dq_ij and dk_ij [S, C, rows * NK, 2 * H * D]
    attention,  # a_ij [S, C, rows * NK, H]
    query_stride,
    key_stride,
    value_stride,
    first,
    first_row,
    rows,
    graphs,
    queries,
    keys,
    mask_seed_stride,
    mask_graph_stride,
    mask_row_stride,
    mask_key_stride,
    scale,  # 1 / sqrt(D)
    HAS_MASK: tl.constexpr,
    ONE_BLOCK: tl.constexpr,  # all keys in one block
    SPLITS: tl.constexpr,  # parts of the keys
    KEYS: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PAD: tl.constexpr,
    GROUP_HEADS: tl.constexpr,
):
    """One head group and one part of the keys j of one row i of one graph."""
    WIDTH: tl.constexpr = HEADS * HEAD_SIZE
    GROUPS: tl.constexpr = (HEADS + GROUP_HEADS - 1) // GROUP_HEADS
    dtype: tl.constexpr = pairs.dtype.element_ty
    local_row = tl.program_id(0) // (GROUPS * SPLITS)
    row = first_row + local_row
    group = tl.program_id(0) // SPLITS % GROUPS
    split = tl.program_id(0) % SPLITS
    seed = tl.program_id(2).to(tl.int64)
    graph = seed * graphs + first + tl.program_id(1)
    buffer = (seed * tl.num_programs(1) + tl.program_id(1)) * rows + local_row
    node = graph * queries + row
    query += node * query_stride
    gradient += node * WIDTH
    query_gradient += (split.to(tl.int64) * tl.num_programs(2) * graphs * queries + node) * WIDTH
    key += graph * keys * key_stride
    value += graph * keys * value_stride
    log_sum += node * HEADS
    delta += node * HEADS
    pairs += buffer * keys * 2 * WIDTH
    through_edges += buffer * keys * HEADS
    attention += buffer * keys * HEADS
    mask += seed * mask_seed_stride + (first + tl.program_id(1)).to(tl.int64) * mask_graph_stride
    mask += row * mask_row_stride

    columns, column_valid = group_columns(group, HEADS, HEAD_SIZE, HEAD_PAD, GROUP_HEADS)
    heads = group * GROUP_HEADS + tl.arange(0, GROUP_HEADS)
    head_valid = heads < HEADS
    row_query = tl.load(query + columns, mask=column_valid, other=0.0).to(tl.float32)[None, :]
    row_gradient = tl.load(gradient + columns, mask=column_valid, other=0.0).to(tl.float32)[None, :]
    row_log_sum = tl.load(log_sum + heads, mask=head_valid, other=0.0)[None, :]
    row_delta = tl.load(delta + heads, mask=head_valid, other=0.0)
    query_sum = tl.zeros((GROUP_HEADS * HEAD_PAD,), tl.float32)
    span = tl.cdiv(tl.cdiv(keys, KEYS), SPLITS) * KEYS
    begin = 0 if ONE_BLOCK else split * span
    end = KEYS if ONE_BLOCK else tl.minimum(keys, begin + span)
    for start in range(begin, end, KEYS):
        j = start + tl.arange(0, KEYS)
        valid = j < keys
        edge_query = load_columns(pairs, j, valid, 2 * WIDTH, columns, column_valid).to(tl.float32)
        edge_key = load_columns(pairs + WIDTH, j, valid, 2 * WIDTH, columns, column_valid).to(tl.float32)
        node_key = load_columns(key, j, valid, key_stride, columns, column_valid)
        node_value = load_columns(value, j, valid, value_stride, columns, column_valid)
        present = valid
        if HAS_MASK:
            present &= tl.load(mask + j * mask_key_stride, mask=valid, other=0) != 0
        weights_gradient = load_columns(through_edges, j, valid, HEADS, heads, head_valid)
        edge_query += row_query
        edge_key += node_key.to(tl.float32)
        scores = sum_heads(edge_query * edge_key, GROUP_HEADS) * (scale * LOG2_E)  # [KEYS, GH]
        weights = tl.where(present[:, None], tl.exp2(scores - row_log_sum), 0.0)
        weights_gradient += sum_heads(row_gradient * node_value.to(tl.float32), GROUP_HEADS)
        if ONE_BLOCK:  # sum_j a_ij da_ij in place of g_i . message_i: the same, without the message's rounding
            row_delta = tl.sum(weights * weights_gradient, axis=0)
        scores_gradient = spread_heads(weights * (weights_gradient - row_delta[None, :]) * scale, HEAD_PAD)

        edge_key *= scores_gradient  # dq_ij
        edge_query *= scores_gradient  # dk_ij
        query_sum += tl.sum(edge_key, axis=0)
        # The buffer is overwritten in place: first everybody has read.
        tl.debug_barrier()
        where = j[:, None] * (2 * WIDTH) + columns[None, :]
        inside = valid[:, None] & column_valid[None, :]
        tl.store(pairs + where, edge_key.to(dtype), mask=inside)
        tl.store(pairs + WIDTH + where, edge_query.to(dtype), mask=inside)
        where = j[:, None] * HEADS + heads[None, :]
        tl.store(attention + where, weights.to(dtype), mask=valid[:, None] & head_valid[None, :])
    tl.store(query_gradient + columns, query_sum.to(query_gradient.dtype.element_ty), mask=column_valid)


@triton.jit
def attention_columns_kernel(
    gradient,  # g [S, G, NQ, H * D]
    pairs,  # dq_ij, dk_ij [S, C, rows * NK, 2 * H * D], rows as in `Part`
    attention,  # a_ij [S, C, rows * NK, H]
    key_gradient,  # [S, G, NK, H * D]
    value_gradient,  # [S, G, NK, H * D]
    first,
    first_row,
    rows,
    graphs,
    queries,
    keys,
    ROWS: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PAD: tl.constexpr,
    GROUP_HEADS: tl.constexpr,
):
    """dk_j = sum_i dk_ij and dv_j = sum_i a_ij g_i over the part's rows i, ROWS at a time, for one head group of one
    key j of one graph."""
    WIDTH: tl.constexpr = HEADS * HEAD_SIZE
    GROUPS: tl.constexpr = (HEADS + GROUP_HEADS - 1) // GROUP_HEADS
    j = tl.program_id(0) // GROUPS
    group = tl.program_id(0) % GROUPS
    seed = tl.program_id(2).to(tl.int64)
    graph = seed * graphs + first + tl.program_id(1)
    buffer = (seed * tl.num_programs(1) + tl.program_id(1)) * rows * keys
    gradient += (graph * queries + first_row) * WIDTH
    pairs += buffer * 2 * WIDTH + WIDTH
    attention += buffer * HEADS
    key_gradient += (graph * keys + j) * WIDTH
    value_gradient += (graph * keys + j) * WIDTH
    columns, column_valid = group_columns(group, HEADS, HEAD_SIZE, HEAD_PAD, GROUP_HEADS)
    heads = group * GROUP_HEADS + tl.arange(0, GROUP_HEADS)
    key_sum = tl.zeros((ROWS, GROUP_HEADS * HEAD_PAD), tl.float32)
    value_sum = tl.zeros((ROWS, GROUP_HEADS * HEAD_PAD), tl.float32)
    for start in range(0, rows, ROWS):
        i = start + tl.arange(0, ROWS)
        valid = i < rows
        edge = i * keys + j
        part = load_columns(pairs, edge, valid, 2 * WIDTH, columns, column_valid)
        weights = load_columns(attention, edge, valid, HEADS, heads, heads < HEADS)
        row_gradient = load_columns(gradient, i, valid, WIDTH, columns, column_valid)
        key_sum += part.to(tl.float32)
        value_sum += spread_heads(weights.to(tl.float32), HEAD_PAD) * row_gradient.to(tl.float32)
    key_total = tl.sum(key_sum, axis=0).to(key_gradient.dtype.element_ty)
    value_total = tl.sum(value_sum, axis=0).to(value_gradient.dtype.element_ty)
    tl.store(key_gradient + columns, key_total, mask=column_valid)
    tl.store(value_gradient + columns, value_total, mask=column_valid)
