"""Relational attention, backward, by recomputation from the edges.

With g = d messages, u_i^h = Wv_h^T g_i^h and c_i^h = sum_j a_ij^h e_ij (saved by the forward pass):

    da_ij = g_i . v_j + u_i . e_ij            ds_ij = a_ij (da_ij - g_i . message_i) / sqrt(D)
    dq_ij = ds_ij k_ij                        dk_ij = ds_ij q_ij
    de_ij = Wq^T dq_ij + Wk^T dk_ij + sum_h a_ij^h u_i^h
    dq_i = sum_j dq_ij    dk_j = sum_i dk_ij    dv_j = sum_i a_ij g_i
    dWq = sum_ij dq_ij e_ij^T    dWk = sum_ij dk_ij e_ij^T    dWv_h = sum_i g_i^h c_i^hT

Four kernels and one matrix product: lift (u and g . message, of the nodes' size), pairs (dq_ij and dk_ij, the nodes'
gradients), edge gradient, value weight gradient; dq_ij and dk_ij exist for some graphs at a time. Every sum has a fixed
order: the same inputs give the same bits.
"""

import math

import torch
import triton
from torch import Tensor

from relational_transformer.nn.kernels.attention_edge_gradient import attention_edge_gradient_kernel
from relational_transformer.nn.kernels.attention_pairs import attention_pairs_kernel
from relational_transformer.nn.kernels.attention_value import attention_lift_kernel, attention_value_weight_kernel
from relational_transformer.nn.kernels.tiles import HeadTiles, dot_precision

PAIR_BUFFER_BYTES = 128 * 2**20
VALUE_ROWS = 64
FULL_GRID = 128


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
    seeds, graphs, queries, keys, edge_size = edges.shape
    width = query.shape[-1]
    if edges.numel() == 0:
        zeros = [torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device) for tensor in (query, key, value)]
        return zeros[0], zeros[1], zeros[2], torch.zeros_like(edges), torch.zeros_like(weight)
    tiles = HeadTiles(num_heads, width // num_heads, edge_size)
    constants = {**tiles.constants(), "PRECISION": dot_precision(edges.dtype)}

    lifted = torch.empty_like(context)  # [S, G, NQ, H, E]
    delta = torch.empty_like(log_sum)  # [S, G, NQ, H]
    nodes = graphs * queries
    value_blocks = triton.cdiv(nodes, VALUE_ROWS)
    attention_lift_kernel[(num_heads, value_blocks, seeds)](
        gradient, messages, weight, lifted, delta, nodes, ROWS=VALUE_ROWS, **constants
    )

    options = pair_options(tiles, edges.dtype)
    key_blocks = triton.cdiv(keys, options["KEYS"])
    row_ranges = triton.cdiv(queries, options["ROW_RANGE"])
    query_gradient = partial_sums(query, key_blocks)
    key_gradient = partial_sums(key, row_ranges)
    value_gradient = partial_sums(value, row_ranges)
    edge_gradient = torch.empty_like(edges)
    weight_gradient = torch.empty_like(weight, dtype=torch.float32)
    mask_strides = (0, 0, 0, 0) if mask is None else mask.stride()

    chunk = graphs_at_a_time(seeds, graphs, queries * keys * 2 * width * edges.element_size())
    for first in range(0, graphs, chunk):
        count = min(chunk, graphs - first)
        pairs = edges.new_empty(seeds, count, queries * keys, 2 * width)  # dq_ij and dk_ij
        attention = edges.new_empty(seeds, count, queries * keys, num_heads)
        attention_pairs_kernel[(tiles.groups * key_blocks * row_ranges, count, seeds)](
            gradient,
            query,
            key,
            value,
            edges,
            weight,
            query if mask is None else mask.view(torch.uint8),
            log_sum,
            delta,
            lifted,
            query_gradient,
            key_gradient,
            value_gradient,
            pairs,
            attention,
            query.stride(2),
            key.stride(2),
            value.stride(2),
            first,
            count,
            seeds,
            graphs,
            queries,
            keys,
            *mask_strides,
            1.0 / math.sqrt(tiles.head_size),
            HAS_MASK=mask is not None,
            **options,
            **constants,
        )
        edge_options = edge_gradient_options(tiles, edges.dtype)
        edge_tiles = triton.cdiv(queries, edge_options["ROWS"]) * triton.cdiv(keys, edge_options["KEYS"])
        attention_edge_gradient_kernel[(edge_tiles, count, seeds)](
            pairs,
            attention,
            lifted,
            weight,
            edge_gradient,
            first,
            count,
            graphs,
            queries,
            keys,
            **edge_options,
            **constants,
        )
        part = pair_weight_gradient(pairs, edges[:, first : first + count])
        if first == 0:
            weight_gradient[:, : 2 * width] = part
        else:
            weight_gradient[:, : 2 * width] += part

    splits = max(1, min(value_blocks // 4, FULL_GRID // (seeds * num_heads)))
    value_weight_gradient = weight.new_empty(splits, seeds, width, edge_size, dtype=torch.float32)
    attention_value_weight_kernel[(num_heads, splits, seeds)](
        gradient, context, value_weight_gradient, nodes, seeds, ROWS=VALUE_ROWS, **constants
    )
    torch.sum(value_weight_gradient, 0, out=weight_gradient[:, 2 * width :])
    return (
        total(query_gradient, query),
        total(key_gradient, key),
        total(value_gradient, value),
        edge_gradient,
        weight_gradient.to(weight.dtype),
    )


def pair_weight_gradient(pairs: Tensor, edges: Tensor) -> Tensor:
    """dWq and dWk, stacked [S, 2 * H * D, E]: sum over edges of pairs^T edges, in float32."""
    seeds, graphs, queries, keys, edge_size = edges.shape
    width = pairs.shape[-1]
    rows = graphs * queries
    splits = max(1, FULL_GRID // (2 * seeds))
    splits = next(count for count in range(min(splits, rows), 0, -1) if rows % count == 0)
    length = rows // splits * keys
    left = pairs.reshape(seeds * splits, length, width).transpose(1, 2)
    right = edges.reshape(seeds * splits, length, edge_size)
    if edges.dtype == torch.float32:
        product = torch.bmm(left, right)
    elif edges.is_cuda:
        product = torch.bmm(left, right, out_dtype=torch.float32)
    else:
        product = torch.bmm(left.float(), right.float())
    product = product.view(seeds, splits, width, edge_size)
    return product[:, 0] if splits == 1 else product.sum(1)


def graphs_at_a_time(seeds: int, graphs: int, bytes_per_graph: int) -> int:
    """How many graphs of every seed share the buffer of dq_ij and dk_ij."""
    return max(1, min(graphs, PAIR_BUFFER_BYTES // max(1, seeds * bytes_per_graph)))


def partial_sums(like: Tensor, parts: int) -> Tensor:
    """Room [parts, S, G, N, H * D] for sums that several programs share; with one part, the gradient itself."""
    return like.new_empty((parts, *like.shape), dtype=like.dtype if parts == 1 else torch.float32)


def total(parts: Tensor, like: Tensor) -> Tensor:
    return parts[0] if parts.shape[0] == 1 else parts.sum(0).to(like.dtype)


def pair_options(tiles: HeadTiles, dtype: torch.dtype) -> dict[str, int]:
    """Tile sizes and warps of the kernel that makes dq_ij and dk_ij."""
    rows = max(4, 16 // tiles.group_heads)
    return {"ROWS": rows, "KEYS": 16, "ROW_RANGE": 4 * rows, "num_warps": 4, "num_stages": 2}


def edge_gradient_options(tiles: HeadTiles, dtype: torch.dtype) -> dict[str, int]:
    """Tile sizes and warps of the kernel that makes de_ij."""
    rows = max(4, 16 // tiles.group_heads)
    return {"ROWS": rows, "KEYS": 16, "num_warps": 4, "num_stages": 2}
