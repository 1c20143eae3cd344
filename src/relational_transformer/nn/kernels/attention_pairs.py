"""The core of the attention's backward pass: dq_ij, dk_ij and the gradients of the nodes."""

import triton
import triton.language as tl

from relational_transformer.nn.kernels.tiles import head_columns, load_heads, load_rows, store_rows

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def attention_pairs_kernel(
    gradient,  # g [S, G, NQ, H * D]
    query,  # [S, G, NQ, H * D], rows query_stride apart
    key,  # [S, G, NK, H * D], likewise
    value,  # [S, G, NK, H * D]
    edges,  # [S, G, NQ, NK, E]
    mask,  # [S, G, NQ, NK] by strides
    log_sum,  # [S, G, NQ, H], base 2
    delta,  # [S, G, NQ, H]
    lifted,  # u [S, G, NQ, H, E]
    query_gradient,  # [S, G, NQ, H * D]
    edge_gradient,  # [S, G, NQ, NK, E]: gets sum_h a_ij^h u_i^h
    pairs,  # in: W_q e_ij and W_k e_ij, out: dq_ij and dk_ij [S, C, NQ * NK, 2 * H * D] of graphs first ... first + C
    attention,  # a_ij [S, C, NQ * NK, H]
    query_stride,
    key_stride,
    value_stride,
    first,
    graphs,
    queries,
    keys,
    mask_seed_stride,
    mask_graph_stride,
    mask_row_stride,
    mask_key_stride,
    scale,  # 1 / sqrt(D)
    HAS_MASK: tl.constexpr,
    KEYS: tl.constexpr,
    PRECISION: tl.constexpr,
    HEADS: tl.constexpr,
    HEADS_PAD: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PAD: tl.constexpr,
    EDGE_SIZE: tl.constexpr,
    EDGE_PAD: tl.constexpr,
):
    """One row i of one graph."""
    WIDTH: tl.constexpr = HEADS * HEAD_SIZE
    dtype: tl.constexpr = edges.dtype.element_ty
    row = tl.program_id(0)
    seed = tl.program_id(2).to(tl.int64)
    graph = seed * graphs + first + tl.program_id(1)
    buffer = (seed * tl.num_programs(1) + tl.program_id(1)) * queries + row
    node = graph * queries + row
    key += graph * keys * key_stride
    value += graph * keys * value_stride
    edges += node * keys * EDGE_SIZE
    edge_gradient += node * keys * EDGE_SIZE
    lifted += node * HEADS * EDGE_SIZE
    pairs += buffer * keys * 2 * WIDTH
    attention += buffer * keys * HEADS
    mask += seed * mask_seed_stride + (first + tl.program_id(1)).to(tl.int64) * mask_graph_stride
    mask += row * mask_row_stride

    columns, column_valid = head_columns(HEADS, HEADS_PAD, HEAD_SIZE, HEAD_PAD)
    heads = tl.arange(0, HEADS_PAD)
    head_valid = heads < HEADS
    row_query = tl.load(query + node * query_stride + columns, mask=column_valid, other=0.0).to(tl.float32)
    row_gradient = tl.load(gradient + node * WIDTH + columns, mask=column_valid, other=0.0).to(tl.float32)
    row_log_sum = tl.load(log_sum + node * HEADS + heads, mask=head_valid, other=0.0)
    row_delta = tl.load(delta + node * HEADS + heads, mask=head_valid, other=0.0)
    u = load_rows(lifted, heads, head_valid, EDGE_SIZE, EDGE_SIZE, EDGE_PAD)
    query_sum = tl.zeros((HEADS_PAD, HEAD_PAD), tl.float32)
    for start in range(0, keys, KEYS):
        j = start + tl.arange(0, KEYS)
        valid = j < keys
        edge_query = load_heads(pairs, j, valid, columns, column_valid, 2 * WIDTH) + row_query[None, :, :]
        edge_key = load_heads(pairs + WIDTH, j, valid, columns, column_valid, 2 * WIDTH)
        edge_key += load_heads(key, j, valid, columns, column_valid, key_stride)
        node_value = load_heads(value, j, valid, columns, column_valid, value_stride)
        edge = load_rows(edges, j, valid, EDGE_SIZE, EDGE_SIZE, EDGE_PAD)
        present = valid
        if HAS_MASK:
            present &= tl.load(mask + j * mask_key_stride, mask=valid, other=0) != 0
        scores = tl.sum(edge_query * edge_key, axis=2) * (scale * LOG2_E)  # [KEYS, H]
        weights = tl.where(present[:, None], tl.exp2(scores - row_log_sum[None, :]), 0.0)
        weights_gradient = tl.sum(row_gradient[None, :, :] * node_value, axis=2)
        weights_gradient = tl.dot(edge, tl.trans(u), weights_gradient, input_precision=PRECISION)
        scores_gradient = (weights * (weights_gradient - row_delta[None, :]) * scale)[:, :, None]

        query_part = scores_gradient * edge_key
        key_part = scores_gradient * edge_query
        query_sum += tl.sum(query_part, axis=0)
        weights = weights.to(dtype)
        store_rows(attention, j, valid, HEADS, weights, HEADS)
        through_values = tl.dot(weights, u, input_precision=PRECISION)
        store_rows(edge_gradient, j, valid, EDGE_SIZE, through_values, EDGE_SIZE)
        # The buffer is overwritten in place: first everybody has read.
        tl.debug_barrier()
        where = j[:, None, None] * (2 * WIDTH) + columns[None, :, :]
        inside = valid[:, None, None] & column_valid[None, :, :]
        tl.store(pairs + where, query_part.to(dtype), mask=inside)
        tl.store(pairs + WIDTH + where, key_part.to(dtype), mask=inside)
    where = query_gradient + node * WIDTH + columns
    tl.store(where, query_sum.to(query_gradient.dtype.element_ty), mask=column_valid)


@triton.jit
def attention_columns_kernel(
    gradient,  # g [S, G, NQ, H * D]
    pairs,  # dq_ij, dk_ij [S, C, NQ * NK, 2 * H * D] of the graphs first ... first + C
    attention,  # a_ij [S, C, NQ * NK, H]
    key_gradient,  # [S, G, NK, H * D]
    value_gradient,  # [S, G, NK, H * D]
    first,
    graphs,
    queries,
    keys,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    HEADS: tl.constexpr,
    HEADS_PAD: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PAD: tl.constexpr,
):
    """dk_j = sum_i dk_ij and dv_j = sum_i a_ij g_i, for KEYS keys j of one graph, ROWS rows i at a time."""
    WIDTH: tl.constexpr = HEADS * HEAD_SIZE
    TILE: tl.constexpr = ROWS * KEYS
    seed = tl.program_id(2).to(tl.int64)
    graph = seed * graphs + first + tl.program_id(1)
    buffer = (seed * tl.num_programs(1) + tl.program_id(1)) * queries * keys
    gradient += graph * queries * WIDTH
    pairs += buffer * 2 * WIDTH + WIDTH
    attention += buffer * HEADS
    columns, column_valid = head_columns(HEADS, HEADS_PAD, HEAD_SIZE, HEAD_PAD)
    heads = tl.arange(0, HEADS_PAD)
    j = tl.program_id(0) * KEYS + tl.arange(0, TILE) % KEYS
    key_sum = tl.zeros((TILE, HEADS_PAD, HEAD_PAD), tl.float32)
    value_sum = tl.zeros((TILE, HEADS_PAD, HEAD_PAD), tl.float32)
    for start in range(0, queries, ROWS):
        i = start + tl.arange(0, TILE) // KEYS
        valid = (i < queries) & (j < keys)
        edge = i * keys + j
        key_sum += load_heads(pairs, edge, valid, columns, column_valid, 2 * WIDTH)
        where = edge[:, None] * HEADS + heads[None, :]
        weights = tl.load(attention + where, mask=valid[:, None] & (heads < HEADS)[None, :], other=0.0)
        row_gradient = load_heads(gradient, i, valid, columns, column_valid, WIDTH)
        value_sum += weights.to(tl.float32)[:, :, None] * row_gradient
    key_sum = tl.sum(tl.reshape(key_sum, (ROWS, KEYS, HEADS_PAD, HEAD_PAD)), axis=0)
    value_sum = tl.sum(tl.reshape(value_sum, (ROWS, KEYS, HEADS_PAD, HEAD_PAD)), axis=0)
    j = tl.program_id(0) * KEYS + tl.arange(0, KEYS)
    where = (graph * keys + j)[:, None, None] * WIDTH + columns[None, :, :]
    inside = (j < keys)[:, None, None] & column_valid[None, :, :]
    tl.store(key_gradient + where, key_sum.to(key_gradient.dtype.element_ty), mask=inside)
    tl.store(value_gradient + where, value_sum.to(value_gradient.dtype.element_ty), mask=inside)
