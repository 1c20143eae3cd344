"""Relational attention, backward, by recomputation from the edges.

With g = d messages, u_i^h = Wv_h^T g_i^h and c_i^h = sum_j a_ij^h e_ij (saved by the forward pass):

    da_ij = g_i . v_j + u_i . e_ij            ds_ij = a_ij (da_ij - g_i . message_i) / sqrt(D)
    dq_ij = ds_ij k_ij                        dk_ij = ds_ij q_ij
    de_ij = Wq^T dq_ij + Wk^T dk_ij + sum_h a_ij^h u_i^h
    dq_i = sum_j dq_ij    dk_j = sum_i dk_ij    dv_j = sum_i a_ij g_i
    dWq = sum_ij dq_ij e_ij^T    dWk = sum_ij dk_ij e_ij^T    dWv_h = sum_i g_i^h c_i^hT

The products with Wq and Wk are cuBLAS's, some graphs or rows at a time, over a buffer in which dq_ij and dk_ij replace
the recomputed q_ij and k_ij. No sum is made by atomics: the same inputs give the same bits.
"""

import math

import torch
import triton
from torch import Tensor

from relational_transformer.nn.kernels.attention_edge_values import (
    attention_through_edges_kernel,
    attention_through_values_kernel,
)
from relational_transformer.nn.kernels.attention_forward import KEYS, VALUE_ROWS, parts_of_keys
from relational_transformer.nn.kernels.attention_pairs import attention_columns_kernel, attention_pairs_kernel
from relational_transformer.nn.kernels.attention_parts import edge_pairs, pair_buffer, parts_of_edges
from relational_transformer.nn.kernels.attention_value import attention_lift_kernel, attention_value_weight_kernel
from relational_transformer.nn.kernels.edge_sums import sum_of_outer_products
from relational_transformer.nn.kernels.tiles import AttentionSizes, one_warp, padded, programs_at_once

PAIR_BUFFER_BYTES = 72 * 2**20  # more than the forward pass has: the sums over rows want many graphs at once

REGISTERS = 128
PROGRAMS = 2 * programs_at_once(168)
"""Programs of one warp, more than a large device holds at once: with fewer rows and head groups, keys are split too."""

FEW_SEEDS = 32  # below this many, the weights' gradients are summed in several parts, to fill the device


def attention_backward(
    gradient: Tensor,
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
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, value, edges and weight; shapes as in `attention_forward`."""
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

    nodes = graphs * queries
    value_blocks = triton.cdiv(nodes, VALUE_ROWS)
    lifted = torch.empty_like(context)  # [S, G, NQ, H, E]
    delta = torch.empty_like(log_sum)  # [S, G, NQ, H]
    attention_lift_kernel[(num_heads, value_blocks, seeds)](
        gradient, messages, weight, lifted, delta, nodes, ROWS=VALUE_ROWS, **constants, num_warps=2
    )

    column_rows = 16 if queries <= 16 else 64  # a warp for each 16: it has no products, and waits for loads alone
    parts = parts_of_edges(edges, width, PAIR_BUFFER_BYTES)
    buffer = pair_buffer(edges, width, parts[0])
    row_parts = triton.cdiv(queries, parts[0].rows)
    key_parts, value_parts = key_gradient[None], value_gradient[None]
    if row_parts > 1:
        key_parts, value_parts = (key.new_empty(row_parts, *key.shape, dtype=torch.float32) for _ in range(2))
    programs = parts[0].graphs * parts[0].rows * seeds
    value_splits = parts_of_keys(keys, triton.cdiv(PROGRAMS, programs))
    splits = parts_of_keys(keys, triton.cdiv(PROGRAMS, programs * sizes.groups))
    query_parts = query_gradient[None]
    if splits > 1:
        query_parts = query.new_empty(splits, *query.shape, dtype=torch.float32)
    of_edges = {name: constants[name] for name in ("PRECISION", "HEADS", "EDGE_SIZE", "CHUNK", "CHUNKS")}
    of_edges |= {"KEYS": KEYS, "SPLITS": value_splits, "HEADS_PAD": padded(num_heads)}
    of_pairs = {name: constants[name] for name in ("HEADS", "HEAD_SIZE", "HEAD_PAD", "GROUP_HEADS")}
    for part in parts:
        where = (part.first, part.row, part.rows, graphs, queries, keys)
        attention = edges.new_empty(seeds, part.graphs, part.rows * keys, num_heads)
        through_edges = torch.empty_like(attention, dtype=torch.float32)
        attention_through_edges_kernel[(part.rows * value_splits, part.graphs, seeds)](
            edges, lifted, through_edges, *where, **of_edges, **one_warp(REGISTERS)
        )
        pairs = edge_pairs(part.edges(edges), weight, buffer)
        attention_pairs_kernel[(part.rows * sizes.groups * splits, part.graphs, seeds)](
            gradient,
            query,
            key,
            value,
            through_edges,
            query if mask is None else mask.view(torch.uint8),
            log_sum,
            delta,
            query_parts,
            pairs,
            attention,
            query.stride(2),
            key.stride(2),
            value.stride(2),
            *where,
            *((0, 0, 0, 0) if mask is None else mask.stride()),
            1.0 / math.sqrt(sizes.head_size),
            HAS_MASK=mask is not None,
            ONE_BLOCK=keys <= KEYS,
            SPLITS=splits,
            KEYS=KEYS,
            **of_pairs,
            **one_warp(REGISTERS),
        )
        attention_through_values_kernel[(part.rows * value_splits, part.graphs, seeds)](
            attention, lifted, edge_gradient, *where, **of_edges, **one_warp(REGISTERS)
        )
        attention_columns_kernel[(keys * sizes.groups, part.graphs, seeds)](
            gradient,
            pairs,
            attention,
            key_parts[part.row // parts[0].rows],
            value_parts[part.row // parts[0].rows],
            *where,
            ROWS=column_rows,
            **of_pairs,
            num_warps=column_rows // 16,
        )
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

    node_parts = max(1, min(value_blocks // 4, FEW_SEEDS // seeds))
    target = weight_gradient[:, 2 * width :]
    by_part = target[None] if node_parts == 1 else target.new_empty(node_parts, seeds, width, edge_size)
    attention_value_weight_kernel[(num_heads, node_parts, seeds)](
        gradient, context, by_part, nodes, *by_part.stride()[:2], ROWS=VALUE_ROWS, **constants, num_warps=2
    )
    if node_parts > 1:
        torch.sum(by_part, 0, out=target)
    return query_gradient, key_gradient, value_gradient, edge_gradient, weight_gradient.to(weight_dtype)
