"""Relational attention, backward, by recomputation from the edges.

With g = d messages, u_i^h = Wv_h^T g_i^h and c_i^h = sum_j a_ij^h e_ij (saved by the forward pass):

    da_ij = g_i . v_j + u_i . e_ij            ds_ij = a_ij (da_ij - g_i . message_i) / sqrt(D)
    dq_ij = ds_ij k_ij                        dk_ij = ds_ij q_ij
    de_ij = Wq^T dq_ij + Wk^T dk_ij + sum_h a_ij^h u_i^h
    dq_i = sum_j dq_ij    dk_j = sum_i dk_ij    dv_j = sum_i a_ij g_i
    dWq = sum_ij dq_ij e_ij^T    dWk = sum_ij dk_ij e_ij^T    dWv_h = sum_i g_i^h c_i^hT

The products with Wq and Wk are cuBLAS's, some graphs or rows at a time, over a buffer in which dq_ij and dk_ij replace
the recomputed q_ij and k_ij. No sum is made by atomics: the same inputs give the same bits. On request, one kernel by
rows (`rows/`) makes dq_ij, dk_ij, dq_i and the edges' gradient through the values.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels.attention_tiles import (
    KEYS,
    AttentionSizes,
    edge_pairs,
    group_columns,
    pair_buffer,
    parts_of_edges,
    parts_of_keys,
    room_for_pairs,
    row_strided,
    spread_heads,
    sum_heads,
)
from relational_transformer.nn.kernels.attention_values import lift, value_weight_gradient
from relational_transformer.nn.kernels.outer_products import sum_of_outer_products
from relational_transformer.nn.kernels.rows import fits_attention_backward
from relational_transformer.nn.kernels.rows.attention import differentiate_rows
from relational_transformer.nn.kernels.seeds import differentiable_once
from relational_transformer.nn.kernels.tiles import (
    load_chunks,
    load_columns,
    load_rows,
    one_warp,
    padded,
    programs_at_once,
    store_chunk,
    store_rows,
)

PAIR_BUFFER_BYTES = 72 * 2**20  # more than the forward pass has: the sums over rows want many graphs at once

REGISTERS = 128
PROGRAMS = 2 * programs_at_once(168)
"""Programs of one warp, more than a large device holds at once: with fewer rows and head groups, keys are split too."""

LOG2_E = tl.constexpr(1.4426950408889634)


@torch.library.custom_op("relational_transformer::attention_backward", mutates_args=())
def attention_backward_operator(
    gradient: Tensor,  # g [S, G, NQ, H * D]
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    messages: Tensor,
    log_sum: Tensor,
    context: Tensor,
    num_heads: int,
    by_rows: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, value, edges and weight; shapes as in `attention_operator`."""
    query, key, value = row_strided(query), row_strided(key), row_strided(value)
    gradient, edges, weight = gradient.contiguous(), edges.contiguous(), weight.contiguous()
    messages, log_sum, context = messages.contiguous(), log_sum.contiguous(), context.contiguous()
    query_gradient, key_gradient, value_gradient = (tensor.new_empty(tensor.shape) for tensor in (query, key, value))
    edge_gradient = torch.empty_like(edges)
    if edges.numel() == 0:
        nodes = query_gradient.zero_(), key_gradient.zero_(), value_gradient.zero_()
        return *nodes, edge_gradient, torch.zeros_like(weight)
    seeds, graphs, queries, keys, edge_size = edges.shape
    width = query.shape[-1]
    sizes = AttentionSizes(num_heads, width // num_heads, edge_size, edges.dtype)
    constants = sizes.constants()
    weight_gradient = torch.empty_like(weight, dtype=torch.float32)
    weight_dtype, weight = weight.dtype, weight.to(edges.dtype)

    lifted, delta = lift(gradient, messages, weight, sizes)
    column_rows = 16 if queries <= 16 else 64  # a warp for each 16: it has no products, and waits for loads alone
    parts = parts_of_edges(edges, width, PAIR_BUFFER_BYTES)
    buffer = pair_buffer(edges, width, parts[0])
    row_parts = triton.cdiv(queries, parts[0].rows)
    key_parts, value_parts = key_gradient[None], value_gradient[None]
    if row_parts > 1:
        key_parts, value_parts = (key.new_empty(row_parts, *key.shape, dtype=torch.float32) for _ in range(2))
    programs = parts[0].graphs * parts[0].rows * seeds
    value_splits = parts_of_keys(keys, triton.cdiv(PROGRAMS, programs))
    mask = None if mask is None else mask.view(torch.uint8)
    by_rows = by_rows and fits_attention_backward(edges)
    splits = 1 if by_rows else parts_of_keys(keys, triton.cdiv(PROGRAMS, programs * sizes.groups))
    query_parts = query_gradient[None]
    if splits > 1:
        query_parts = query.new_empty(splits, *query.shape, dtype=torch.float32)
    of_edges = {name: constants[name] for name in ("PRECISION", "HEADS", "EDGE_SIZE", "CHUNK", "CHUNKS")}
    of_edges |= {"KEYS": KEYS, "SPLITS": value_splits, "HEADS_PAD": padded(num_heads)}
    of_pairs = {name: constants[name] for name in ("HEADS", "HEAD_SIZE", "HEAD_PAD", "GROUP_HEADS")}
    for part in parts:
        where = (part.first, part.row, part.rows, graphs, queries, keys)
        attention = edges.new_empty(seeds, part.graphs, part.rows * keys, num_heads)
        if by_rows:
            pairs = room_for_pairs(part.edges(edges), width, buffer)
            differentiate_rows(
                (query, key, value, edges, weight, mask),
                (part.first, part.graphs, part.row, part.rows),
                (gradient, lifted, log_sum, delta),
                (query_gradient, edge_gradient, pairs, attention),
            )
        else:
            through_edges = torch.empty_like(attention, dtype=torch.float32)
            attention_through_edges_kernel[(part.rows * value_splits, part.graphs, seeds)](
                edges, lifted, through_edges, *where, **of_edges, **one_warp(REGISTERS)
            )
            pairs = edge_pairs(part.edges(edges), weight, buffer)
            attention_pairs_kernel[(part.rows * sizes.groups * splits, part.graphs, seeds)](
                gradient, query, key, value, through_edges, query if mask is None else mask,
                log_sum, delta, query_parts, pairs, attention,
                query.stride(2), key.stride(2), value.stride(2),
                *where, *((0, 0, 0, 0) if mask is None else mask.stride()),
                1.0 / math.sqrt(sizes.head_size),
                HAS_MASK=mask is not None, ONE_BLOCK=keys <= KEYS, SPLITS=splits, KEYS=KEYS,
                **of_pairs, **one_warp(REGISTERS),
            )  # fmt: skip
            attention_through_values_kernel[(part.rows * value_splits, part.graphs, seeds)](
                attention, lifted, edge_gradient, *where, **of_edges, **one_warp(REGISTERS)
            )
        number = part.row // parts[0].rows
        attention_columns_kernel[(keys * sizes.groups, part.graphs, seeds)](
            gradient, pairs, attention, key_parts[number], value_parts[number], *where,
            ROWS=column_rows, **of_pairs, num_warps=column_rows // 16,
        )  # fmt: skip
        part.edges(edge_gradient).baddbmm_(pairs, weight[:, : 2 * width])
        sums = sum_of_outer_products(pairs, part.edges(edges))
        if part == parts[0]:
            weight_gradient[:, : 2 * width] = sums
        else:
            weight_gradient[:, : 2 * width] += sums
    if splits > 1:
        query_gradient.copy_(query_parts.sum(0))
    if row_parts > 1:
        key_gradient.copy_(key_parts.sum(0))
        value_gradient.copy_(value_parts.sum(0))

    value_weight_gradient(gradient, context, sizes, out=weight_gradient[:, 2 * width :])
    return query_gradient, key_gradient, value_gradient, edge_gradient, weight_gradient.to(weight_dtype)


@attention_backward_operator.register_fake
def _(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, edges: Tensor, weight: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    query, key, value, edges, weight = (tensor.new_empty(tensor.shape) for tensor in (query, key, value, edges, weight))
    return query, key, value, edges, weight


attention_backward = differentiable_once(attention_backward_operator)


@triton.jit
def attention_through_edges_kernel(
    edges,  # [S, G, NQ, NK, E]
    lifted,  # u [S, G, NQ, H, E]
    through_edges,  # [S, C, rows * NK, H], rows as in `Part`
    first, first_row, rows, graphs, queries, keys,
    SPLITS: tl.constexpr,  # parts of the keys
    KEYS: tl.constexpr, PRECISION: tl.constexpr, HEADS: tl.constexpr, HEADS_PAD: tl.constexpr,
    EDGE_SIZE: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """The weights' gradient through the edges, u_i^h . e_ij, for one part of the keys j of one row i of one graph."""
    local_row = tl.program_id(0) // SPLITS
    split = tl.program_id(0) % SPLITS
    seed = tl.program_id(2).to(tl.int64)
    node = (seed * graphs + first + tl.program_id(1)) * queries + first_row + local_row
    edges += node * keys * EDGE_SIZE
    lifted += node * HEADS * EDGE_SIZE
    through_edges += ((seed * tl.num_programs(1) + tl.program_id(1)) * rows + local_row) * keys * HEADS
    heads = tl.arange(0, HEADS_PAD)
    u = load_chunks(lifted, heads, heads < HEADS, EDGE_SIZE, EDGE_SIZE, CHUNK, CHUNKS)
    span = tl.cdiv(tl.cdiv(keys, KEYS), SPLITS) * KEYS
    begin = split * span
    for start in range(begin, tl.minimum(keys, begin + span), KEYS):
        j = start + tl.arange(0, KEYS)
        valid = j < keys
        result = tl.zeros((KEYS, HEADS_PAD), tl.float32)
        for chunk in tl.static_range(CHUNKS):
            channels = chunk * CHUNK + tl.arange(0, CHUNK)
            edge = load_columns(edges, j, valid, EDGE_SIZE, channels, channels < EDGE_SIZE)
            result = tl.dot(edge, tl.trans(u[chunk]), result, input_precision=PRECISION)
        store_rows(through_edges, j, valid, HEADS, result, HEADS)


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
    query_stride, key_stride, value_stride,
    first, first_row, rows, graphs, queries, keys,
    mask_seed_stride, mask_graph_stride, mask_row_stride, mask_key_stride,
    scale,  # 1 / sqrt(D)
    HAS_MASK: tl.constexpr,
    ONE_BLOCK: tl.constexpr,  # all keys in one block
    SPLITS: tl.constexpr,  # parts of the keys
    KEYS: tl.constexpr,
    HEADS: tl.constexpr, HEAD_SIZE: tl.constexpr, HEAD_PAD: tl.constexpr, GROUP_HEADS: tl.constexpr,
):  # fmt: skip
    """dq_ij = ds_ij k_ij and dk_ij = ds_ij q_ij with ds_ij = a_ij (da_ij - g_i . message_i) / sqrt(D); a_ij; dq_i: of
    one head group and one part of the keys j of one row i of one graph."""
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
def attention_through_values_kernel(
    attention,  # a_ij [S, C, rows * NK, H], rows as in `Part`
    lifted,  # u [S, G, NQ, H, E]
    edge_gradient,  # [S, G, NQ, NK, E]
    first, first_row, rows, graphs, queries, keys,
    SPLITS: tl.constexpr,  # parts of the keys
    KEYS: tl.constexpr, PRECISION: tl.constexpr, HEADS: tl.constexpr, HEADS_PAD: tl.constexpr,
    EDGE_SIZE: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """The edges' gradient through the values, sum_h a_ij^h u_i^h, for one part of the keys j of one row i of one
    graph."""
    local_row = tl.program_id(0) // SPLITS
    split = tl.program_id(0) % SPLITS
    seed = tl.program_id(2).to(tl.int64)
    node = (seed * graphs + first + tl.program_id(1)) * queries + first_row + local_row
    attention += ((seed * tl.num_programs(1) + tl.program_id(1)) * rows + local_row) * keys * HEADS
    lifted += node * HEADS * EDGE_SIZE
    edge_gradient += node * keys * EDGE_SIZE
    heads = tl.arange(0, HEADS_PAD)
    u = load_chunks(lifted, heads, heads < HEADS, EDGE_SIZE, EDGE_SIZE, CHUNK, CHUNKS)
    span = tl.cdiv(tl.cdiv(keys, KEYS), SPLITS) * KEYS
    begin = split * span
    for start in range(begin, tl.minimum(keys, begin + span), KEYS):
        j = start + tl.arange(0, KEYS)
        valid = j < keys
        weights = load_rows(attention, j, valid, HEADS, HEADS, HEADS_PAD)
        for chunk in tl.static_range(CHUNKS):
            result = tl.dot(weights, u[chunk], input_precision=PRECISION)
            store_chunk(edge_gradient, j, valid, EDGE_SIZE, result, chunk, EDGE_SIZE)


@triton.jit
def attention_columns_kernel(
    gradient,  # g [S, G, NQ, H * D]
    pairs,  # dq_ij, dk_ij [S, C, rows * NK, 2 * H * D], rows as in `Part`
    attention,  # a_ij [S, C, rows * NK, H]
    key_gradient,  # [S, G, NK, H * D]
    value_gradient,  # [S, G, NK, H * D]
    first, first_row, rows, graphs, queries, keys,
    ROWS: tl.constexpr,
    HEADS: tl.constexpr, HEAD_SIZE: tl.constexpr, HEAD_PAD: tl.constexpr, GROUP_HEADS: tl.constexpr,
):  # fmt: skip
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
