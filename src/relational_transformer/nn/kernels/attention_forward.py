"""Relational attention, forward.

The edges' queries and keys come from one matrix product, some graphs at a time into a buffer of bounded size. One kernel
turns them into attention weights, messages from nodes and the mean edge c_i^h = sum_j a_ij^h e_ij; another, of the
nodes' size, adds W_v c_i. Values, scores and weights are never written.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels.attention_value import attention_project_kernel
from relational_transformer.nn.kernels.tiles import AttentionSizes, head_columns, load_heads, load_rows, store_rows

PAIR_BUFFER_BYTES = 128 * 2**20
VALUE_ROWS = 32


@triton.jit
def attention_forward_kernel(
    query,  # [S, G, NQ, H * D], rows query_stride apart
    key,  # [S, G, NK, H * D], likewise
    value,  # [S, G, NK, H * D]
    edges,  # [S, G, NQ, NK, E]
    pairs,  # W_q e_ij and W_k e_ij [S, C, NQ * NK, 2 * H * D] of the graphs first ... first + C
    mask,  # [S, G, NQ, NK] by strides
    node_part,  # sum_j a_ij v_j [S, G, NQ, H * D]
    log_sum,  # [S, G, NQ, H], base 2
    context,  # [S, G, NQ, H, E]: sum_j a_ij e_ij
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
    scale,  # log2(e) / sqrt(D)
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
    """One row i of one graph: online softmax over blocks of KEYS keys j."""
    WIDTH: tl.constexpr = HEADS * HEAD_SIZE
    dtype: tl.constexpr = edges.dtype.element_ty
    row = tl.program_id(0)
    seed = tl.program_id(2).to(tl.int64)
    graph = seed * graphs + first + tl.program_id(1)
    buffer = seed * tl.num_programs(1) + tl.program_id(1)
    node = graph * queries + row
    query += node * query_stride
    key += graph * keys * key_stride
    value += graph * keys * value_stride
    edges += node * keys * EDGE_SIZE
    pairs += (buffer * queries + row) * keys * 2 * WIDTH
    mask += seed * mask_seed_stride + (first + tl.program_id(1)).to(tl.int64) * mask_graph_stride
    mask += row * mask_row_stride

    columns, column_valid = head_columns(HEADS, HEADS_PAD, HEAD_SIZE, HEAD_PAD)
    row_query = tl.load(query + columns, mask=column_valid, other=0.0).to(tl.float32)
    largest = tl.full((HEADS_PAD,), float("-inf"), tl.float32)
    total = tl.zeros((HEADS_PAD,), tl.float32)
    node_sum = tl.zeros((HEADS_PAD, HEAD_PAD), tl.float32)
    edge_sum = tl.zeros((HEADS_PAD, EDGE_PAD), tl.float32)
    for start in range(0, keys, KEYS):
        j = start + tl.arange(0, KEYS)
        valid = j < keys
        edge_query = load_heads(pairs, j, valid, columns, column_valid, 2 * WIDTH) + row_query[None, :, :]
        edge_key = load_heads(pairs + WIDTH, j, valid, columns, column_valid, 2 * WIDTH)
        edge_key += load_heads(key, j, valid, columns, column_valid, key_stride)
        scores = tl.sum(edge_query * edge_key, axis=2) * scale  # [KEYS, H]
        present = valid
        if HAS_MASK:
            present &= tl.load(mask + j * mask_key_stride, mask=valid, other=0) != 0
        scores = tl.where(present[:, None], scores, float("-inf"))

        new_largest = tl.maximum(largest, tl.max(scores, axis=0))
        finite = tl.where(new_largest == float("-inf"), 0.0, new_largest)
        shrink = tl.exp2(largest - finite)
        weights = tl.exp2(scores - finite[None, :])
        total = total * shrink + tl.sum(weights, axis=0)
        largest = new_largest
        node_value = load_heads(value, j, valid, columns, column_valid, value_stride)
        node_sum = node_sum * shrink[:, None] + tl.sum(weights[:, :, None] * node_value, axis=0)
        edge = load_rows(edges, j, valid, EDGE_SIZE, EDGE_SIZE, EDGE_PAD)
        edge_sum = tl.dot(tl.trans(weights.to(dtype)), edge, edge_sum * shrink[:, None], input_precision=PRECISION)

    seen = total > 0.0
    inverse = tl.where(seen, 1.0 / tl.where(seen, total, 1.0), 0.0)[:, None]
    tl.store(node_part + node * WIDTH + columns, node_sum * inverse, mask=column_valid)
    heads = tl.arange(0, HEADS_PAD)
    logarithm = tl.where(seen, largest + tl.log2(tl.where(seen, total, 1.0)), 0.0)
    tl.store(log_sum + node * HEADS + heads, logarithm, mask=heads < HEADS)
    context += node * HEADS * EDGE_SIZE
    store_rows(context, heads, heads < HEADS, EDGE_SIZE, edge_sum * inverse, EDGE_SIZE)


def attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    num_heads: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Messages [S, G, NQ, H * D], log-sum-exp [S, G, NQ, H] and context [S, G, NQ, H, E]."""
    seeds, graphs, queries, keys, edge_size = edges.shape
    width = query.shape[-1]
    sizes = AttentionSizes(num_heads, width // num_heads, edge_size, edges.dtype)
    messages = query.new_empty(query.shape)
    node_part = query.new_empty(query.shape, dtype=torch.float32)
    log_sum = query.new_empty(seeds, graphs, queries, num_heads, dtype=torch.float32)
    context = edges.new_empty(seeds, graphs, queries, num_heads, edge_size)
    if edges.numel() == 0:
        return messages.zero_(), log_sum.zero_(), context.zero_()
    weight = weight.to(edges.dtype)
    chunk = graphs_at_a_time(edges, width)
    for first in range(0, graphs, chunk):
        count = min(chunk, graphs - first)
        pairs = edge_pairs(edges[:, first : first + count], weight)
        attention_forward_kernel[(queries, count, seeds)](
            query,
            key,
            value,
            edges,
            pairs,
            query if mask is None else mask.view(torch.uint8),
            node_part,
            log_sum,
            context,
            query.stride(2),
            key.stride(2),
            value.stride(2),
            first,
            graphs,
            queries,
            keys,
            *((0, 0, 0, 0) if mask is None else mask.stride()),
            math.log2(math.e) / math.sqrt(sizes.head_size),
            HAS_MASK=mask is not None,
            **sizes.constants(),
            **row_options(keys),
        )
    nodes = graphs * queries
    attention_project_kernel[(num_heads, triton.cdiv(nodes, VALUE_ROWS), seeds)](
        context, node_part, weight, messages, nodes, ROWS=VALUE_ROWS, **sizes.constants()
    )
    return messages, log_sum, context


def edge_pairs(edges: Tensor, weight: Tensor) -> Tensor:
    """W_q e_ij and W_k e_ij side by side [S, C * NQ * NK, 2 * H * D]."""
    width = weight.shape[1] // 3
    return torch.bmm(edges.flatten(1, 3), weight[:, : 2 * width].transpose(1, 2))


def graphs_at_a_time(edges: Tensor, width: int) -> int:
    """How many graphs of every seed share the buffer of the edges' queries and keys."""
    seeds, graphs, queries, keys, _ = edges.shape
    bytes_per_graph = seeds * queries * keys * 2 * width * edges.element_size()
    return max(1, min(graphs, PAIR_BUFFER_BYTES // max(1, bytes_per_graph)))


def row_options(keys: int) -> dict[str, int]:
    """Keys of one tile and warps of the kernels that work row by row."""
    return {"KEYS": 16 if keys <= 16 else 32, "num_warps": 4, "num_stages": 1}
