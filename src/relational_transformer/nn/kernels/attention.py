r"""Relational attention as one operator of PyTorch, forward: what `nn.attention` calls in place of the plain path.

$$q_{ij} = q_i + W_q e_{ij} \qquad k_{ij} = k_j + W_k e_{ij} \qquad
a_{ij} = \text{softmax}_j(q_{ij} \cdot k_{ij} / \sqrt{D}) \qquad c_i = \sum_j a_{ij} e_{ij} \qquad
\text{message}_i = \sum_j a_{ij} v_j + W_v c_i$$

for each of H heads. The edges' queries and keys come from one matrix product, some graphs or rows at a time, in a
buffer of bounded size. One kernel turns them into attention weights, the nodes' part of the messages and the mean edge
$c_i$; another, of the nodes' size, adds $W_v c_i$. Values, scores and weights are never written. Where rows are few and
long, the keys of a row are split, and the second kernel puts the parts together. On request, one kernel by rows
(`rows/`) does all but the second kernel's part.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels.attention_backward import attention_backward
from relational_transformer.nn.kernels.attention_tiles import (
    KEYS,
    AttentionSizes,
    edge_pairs,
    group_columns,
    pair_buffer,
    parts_of_edges,
    parts_of_keys,
    row_strided,
    spread_heads,
    sum_heads,
    widen,
)
from relational_transformer.nn.kernels.attention_values import put_together
from relational_transformer.nn.kernels.rows import takes_attention
from relational_transformer.nn.kernels.rows.attention import attend_rows
from relational_transformer.nn.kernels.seeds import differentiable
from relational_transformer.nn.kernels.tiles import (
    load_columns,
    one_warp,
    programs_at_once,
    store_chunk,
)

PAIR_BUFFER_BYTES = 32 * 2**20
REGISTERS = 168
MOST_SPLITS = 8


def relational_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Tensor,
    edge_weight: Tensor,
    *,
    num_heads: int,
    attention_mask: Tensor | None = None,
) -> Tensor:
    """Messages [..., NQ, H * D]; arguments and equation as in `relational_transformer.nn.relational_attention`."""
    if torch.is_autocast_enabled(edges.device.type):
        dtype = torch.get_autocast_dtype(edges.device.type)
        query, key, value, edges = (tensor.to(dtype) for tensor in (query, key, value, edges))
    batch = torch.broadcast_shapes(edges.shape[:-3], *(tensor.shape[:-2] for tensor in (query, key, value)))
    edges = edges.expand(*batch, *edges.shape[-3:])
    queries, keys = edges.shape[-3:-1]
    if attention_mask is not None:
        attention_mask = one_seed(attention_mask.expand(*batch, queries, keys), 2)
    nodes = (tensor.expand(*batch, *tensor.shape[-2:]) for tensor in (query, key, value))
    messages, _, _ = attention(
        *(one_seed(tensor, 2) for tensor in nodes),
        one_seed(edges, 3),
        edge_weight.unsqueeze(0),
        attention_mask,
        num_heads,
        takes_attention(query, edges, num_heads),
    )
    return messages.reshape(*batch, queries, messages.shape[-1])


def one_seed(tensor: Tensor, kept: int) -> Tensor:
    """[..., kept axes] -> [S = 1, G, kept axes], all batch axes in one."""
    return tensor.reshape(1, -1, *tensor.shape[tensor.dim() - kept :])


@torch.library.custom_op("relational_transformer::attention", mutates_args=())
def attention_operator(
    query: Tensor,  # [S, G, NQ, H * D]
    key: Tensor,  # [S, G, NK, H * D]
    value: Tensor,  # [S, G, NK, H * D]
    edges: Tensor,  # [S, G, NQ, NK, E]
    weight: Tensor,  # [S, 3 * H * D, E]
    mask: Tensor | None,  # [S, G, NQ, NK]
    num_heads: int,
    by_rows: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Messages [S, G, NQ, H * D], log-sum-exp [S, G, NQ, H] and context c_i [S, G, NQ, H, E]."""
    query, key, value = row_strided(query), row_strided(key), row_strided(value)
    edges, weight = edges.contiguous(), weight.contiguous()
    seeds, graphs, queries, keys, edge_size = edges.shape
    width = query.shape[-1]
    sizes = AttentionSizes(num_heads, width // num_heads, edge_size, edges.dtype)
    messages = query.new_empty(query.shape)
    log_sum = query.new_empty(seeds, graphs, queries, num_heads, dtype=torch.float32)
    context = edges.new_empty(seeds, graphs, queries, num_heads, edge_size)
    if edges.numel() == 0:
        return messages.zero_(), log_sum.zero_(), context.zero_()
    weight, mask = weight.to(edges.dtype), None if mask is None else mask.view(torch.uint8)
    if by_rows:
        node_parts = attend_rows(query, key, value, edges, weight, mask, log_sum, context)[None]
        put_together(node_parts, log_sum[None], context[None], weight, messages, log_sum, context, sizes)
        return messages, log_sum, context
    parts = parts_of_edges(edges, width, PAIR_BUFFER_BYTES)
    programs = parts[0].graphs * parts[0].rows * sizes.groups * seeds
    splits = parts_of_keys(keys, min(MOST_SPLITS, programs_at_once(REGISTERS) // programs))
    node_parts = query.new_empty(splits, *query.shape, dtype=torch.float32)
    log_sums, contexts = log_sum[None], context[None]
    if splits > 1:
        log_sums, contexts = (
            query.new_empty(splits, *tensor.shape, dtype=torch.float32) for tensor in (log_sum, context)
        )
    buffer = pair_buffer(edges, width, parts[0])
    for part in parts:
        pairs = edge_pairs(part.edges(edges), weight, buffer)
        attention_forward_kernel[(part.rows * sizes.groups * splits, part.graphs, seeds)](
            query, key, value, edges, pairs, query if mask is None else mask,
            node_parts, log_sums, contexts,
            query.stride(2), key.stride(2), value.stride(2),
            part.first, part.row, part.rows, graphs, queries, keys,
            *((0, 0, 0, 0) if mask is None else mask.stride()),
            math.log2(math.e) / math.sqrt(sizes.head_size),
            HAS_MASK=mask is not None, ONE_BLOCK=keys <= KEYS, SPLITS=splits, KEYS=KEYS,
            **sizes.constants(), **one_warp(REGISTERS),
        )  # fmt: skip
    put_together(node_parts, log_sums, contexts, weight, messages, log_sum, context, sizes)
    return messages, log_sum, context


@attention_operator.register_fake
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    num_heads: int,
    *_: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    seeds, graphs, queries, _, edge_size = edges.shape
    heads = (seeds, graphs, queries, num_heads)
    log_sum = query.new_empty(heads, dtype=torch.float32)
    return query.new_empty(query.shape), log_sum, edges.new_empty((*heads, edge_size))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    query, key, value, edges, weight, mask, ctx.num_heads, ctx.by_rows = inputs
    ctx.save_for_backward(query, key, value, edges, weight, mask, *output)


def _differentiate(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    gradients = attention_backward(gradient, *ctx.saved_tensors, ctx.num_heads, ctx.by_rows)
    return *gradients, None, None, None


attention = differentiable(attention_operator, _save, _differentiate)


@triton.jit
def attention_forward_kernel(
    query,  # [S, G, NQ, H * D], rows query_stride apart
    key,  # [S, G, NK, H * D], likewise
    value,  # [S, G, NK, H * D]
    edges,  # [S, G, NQ, NK, E]
    pairs,  # W_q e_ij and W_k e_ij [S, C, rows * NK, 2 * H * D] of rows first_row ... of the graphs first ... first + C
    mask,  # [S, G, NQ, NK] by strides
    node_parts,  # sum_j a_ij v_j [SPLITS, S, G, NQ, H * D]
    log_sums,  # [SPLITS, S, G, NQ, H], base 2
    contexts,  # [SPLITS, S, G, NQ, H, E]: sum_j a_ij e_ij
    query_stride, key_stride, value_stride,
    first, first_row, rows, graphs, queries, keys,
    mask_seed_stride, mask_graph_stride, mask_row_stride, mask_key_stride,
    scale,  # log2(e) / sqrt(D)
    HAS_MASK: tl.constexpr,
    ONE_BLOCK: tl.constexpr,  # all keys in one block
    SPLITS: tl.constexpr,  # parts of the keys, each with a softmax of its own
    KEYS: tl.constexpr, PRECISION: tl.constexpr,
    HEADS: tl.constexpr, HEAD_SIZE: tl.constexpr, HEAD_PAD: tl.constexpr, GROUP_HEADS: tl.constexpr,
    EDGE_SIZE: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """sum_j a_ij v_j and c_i = sum_j a_ij e_ij of one head group and one part of the keys of one row i of one graph.

    An online softmax over blocks of KEYS keys j: a new block shrinks what was summed by 2^(old largest - new largest).
    """
    WIDTH: tl.constexpr = HEADS * HEAD_SIZE
    GROUPS: tl.constexpr = (HEADS + GROUP_HEADS - 1) // GROUP_HEADS
    STEP: tl.constexpr = 16 // GROUP_HEADS if GROUP_HEADS < 16 else 1
    dtype: tl.constexpr = edges.dtype.element_ty
    local_row = tl.program_id(0) // (GROUPS * SPLITS)
    row = first_row + local_row
    group = tl.program_id(0) // SPLITS % GROUPS
    split = tl.program_id(0) % SPLITS
    seed = tl.program_id(2).to(tl.int64)
    graph = seed * graphs + first + tl.program_id(1)
    buffer = (seed * tl.num_programs(1) + tl.program_id(1)) * rows + local_row
    node = graph * queries + row
    query += node * query_stride
    key += graph * keys * key_stride
    value += graph * keys * value_stride
    edges += node * keys * EDGE_SIZE
    pairs += buffer * keys * 2 * WIDTH
    mask += seed * mask_seed_stride + (first + tl.program_id(1)).to(tl.int64) * mask_graph_stride
    mask += row * mask_row_stride
    result = split.to(tl.int64) * tl.num_programs(2) * graphs * queries + node
    node_parts += result * WIDTH
    log_sums += result * HEADS
    contexts += result * HEADS * EDGE_SIZE

    columns, column_valid = group_columns(group, HEADS, HEAD_SIZE, HEAD_PAD, GROUP_HEADS)
    row_query = tl.load(query + columns, mask=column_valid, other=0.0).to(tl.float32)[None, :]
    largest = tl.full((GROUP_HEADS,), float("-inf"), tl.float32)
    total = tl.zeros((GROUP_HEADS,), tl.float32)
    node_sum = tl.zeros((GROUP_HEADS * HEAD_PAD,), tl.float32)
    edge_sum = ()
    for _ in tl.static_range(CHUNKS):
        edge_sum = edge_sum + (tl.zeros((GROUP_HEADS * STEP, CHUNK), tl.float32),)  # noqa: RUF005
    span = tl.cdiv(tl.cdiv(keys, KEYS), SPLITS) * KEYS
    begin = 0 if ONE_BLOCK else split * span
    end = KEYS if ONE_BLOCK else tl.minimum(keys, begin + span)
    for start in range(begin, end, KEYS):
        j = start + tl.arange(0, KEYS)
        valid = j < keys
        edge_query = load_columns(pairs, j, valid, 2 * WIDTH, columns, column_valid)
        edge_key = load_columns(pairs + WIDTH, j, valid, 2 * WIDTH, columns, column_valid)
        node_key = load_columns(key, j, valid, key_stride, columns, column_valid)
        node_value = load_columns(value, j, valid, value_stride, columns, column_valid)
        present = valid
        if HAS_MASK:
            present &= tl.load(mask + j * mask_key_stride, mask=valid, other=0) != 0
        product = (edge_query.to(tl.float32) + row_query) * (edge_key.to(tl.float32) + node_key.to(tl.float32))
        scores = sum_heads(product, GROUP_HEADS) * scale  # [KEYS, GH]
        scores = tl.where(present[:, None], scores, float("-inf"))

        new_largest = tl.maximum(largest, tl.max(scores, axis=0))
        finite = tl.where(new_largest == float("-inf"), 0.0, new_largest)
        shrink = tl.exp2(largest - finite)
        weights = tl.exp2(scores - finite[None, :])
        total = total * shrink + tl.sum(weights, axis=0)
        largest = new_largest
        if not ONE_BLOCK:
            node_sum *= tl.reshape(spread_heads(shrink[None, :], HEAD_PAD), node_sum.shape)
        node_sum += tl.sum(spread_heads(weights, HEAD_PAD) * node_value.to(tl.float32), axis=0)
        blocks = tl.trans(widen(weights, STEP).to(dtype))  # [16, KEYS]
        wide_shrink = tl.trans(widen(shrink[None, :], STEP))  # [16, 1]
        new_edge_sum = ()
        for chunk in tl.static_range(CHUNKS):
            channels = chunk * CHUNK + tl.arange(0, CHUNK)
            edge = load_columns(edges, j, valid, EDGE_SIZE, channels, channels < EDGE_SIZE)
            so_far = edge_sum[chunk] if ONE_BLOCK else edge_sum[chunk] * wide_shrink
            update = tl.dot(blocks, edge, so_far, input_precision=PRECISION)
            new_edge_sum = new_edge_sum + (update,)  # noqa: RUF005
        edge_sum = new_edge_sum

    seen = total > 0.0
    inverse = tl.where(seen, 1.0 / tl.where(seen, total, 1.0), 0.0)
    node_sum *= tl.reshape(spread_heads(inverse[None, :], HEAD_PAD), node_sum.shape)
    tl.store(node_parts + columns, node_sum, mask=column_valid)
    heads = group * GROUP_HEADS + tl.arange(0, GROUP_HEADS)
    nothing = 0.0 if SPLITS == 1 else float("-inf")
    logarithm = tl.where(seen, largest + tl.log2(tl.where(seen, total, 1.0)), nothing)
    tl.store(log_sums + heads, logarithm, mask=heads < HEADS)
    wide = tl.arange(0, GROUP_HEADS * STEP)
    heads = group * GROUP_HEADS + wide // STEP
    head_valid = (wide % STEP == 0) & (heads < HEADS)
    inverse = tl.trans(widen(inverse[None, :], STEP))
    for chunk in tl.static_range(CHUNKS):
        store_chunk(contexts, heads, head_valid, EDGE_SIZE, edge_sum[chunk] * inverse, chunk, EDGE_SIZE)
