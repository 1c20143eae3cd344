"""The values' part of attention, forward and backward: everything here is of the nodes' size.

With c_i^h = sum_j a_ij^h e_ij, and g = d messages:

    message_i^h = sum_j a_ij^h v_j^h + Wv_h c_i^h
    u_i^h = Wv_h^T g_i^h          delta_i^h = g_i^h . message_i^h          dWv_h = sum_i g_i^h c_i^hT
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels.attention_tiles import AttentionSizes
from relational_transformer.nn.kernels.tiles import load_chunks, load_rows, store_chunk, store_rows

ROWS = 32
"""Nodes that a program works on at once."""
FEW_SEEDS = 32
"""Below this many, the weights' gradients are summed in several parts, to fill the device."""


def put_together(
    node_parts: Tensor,
    log_sums: Tensor,
    contexts: Tensor,
    weight: Tensor,
    messages: Tensor,
    log_sum: Tensor,
    context: Tensor,
    sizes: AttentionSizes,
) -> None:
    """Write messages [S, G, NQ, H * D], and where there are several parts of the keys, what they have in common.

    Of each part: sum_j a_ij v_j [P, S, G, NQ, H * D], log_sums [P, S, G, NQ, H] and contexts [P, S, G, NQ, H, E]. The
    weight [S, 3 * H * D, E] is of the edges' dtype.
    """
    splits, (seeds, graphs, queries, _) = len(node_parts), messages.shape
    nodes = graphs * queries
    attention_project_kernel[(sizes.heads, triton.cdiv(nodes, ROWS), seeds)](
        contexts, node_parts, log_sums, weight, messages, context, log_sum, nodes,
        ROWS=ROWS, SPLITS=splits, **sizes.constants(), num_warps=2,
    )  # fmt: skip


def lift(gradient: Tensor, messages: Tensor, weight: Tensor, sizes: AttentionSizes) -> tuple[Tensor, Tensor]:
    """u [S, G, NQ, H, E], in the weight's dtype, and delta [S, G, NQ, H], in float32."""
    seeds, graphs, queries, _ = gradient.shape
    nodes = graphs * queries
    lifted = weight.new_empty(seeds, graphs, queries, sizes.heads, sizes.edge_size)
    delta = weight.new_empty(seeds, graphs, queries, sizes.heads, dtype=torch.float32)
    attention_lift_kernel[(sizes.heads, triton.cdiv(nodes, ROWS), seeds)](
        gradient, messages, weight, lifted, delta, nodes, ROWS=ROWS, **sizes.constants(), num_warps=2
    )
    return lifted, delta


def value_weight_gradient(gradient: Tensor, context: Tensor, sizes: AttentionSizes, out: Tensor) -> None:
    """Write dWv [S, H * D, E] in float32, of g [S, G, NQ, H * D] and c [S, G, NQ, H, E]."""
    seeds, graphs, queries, width = gradient.shape
    nodes = graphs * queries
    parts = max(1, min(triton.cdiv(nodes, ROWS) // 4, FEW_SEEDS // seeds))
    by_part = out[None] if parts == 1 else out.new_empty(parts, seeds, width, sizes.edge_size)
    attention_value_weight_kernel[(sizes.heads, parts, seeds)](
        gradient, context, by_part, nodes, *by_part.stride()[:2], ROWS=ROWS, **sizes.constants(), num_warps=2
    )
    if parts > 1:
        torch.sum(by_part, 0, out=out)


@triton.jit
def attention_project_kernel(
    contexts,  # c [SPLITS, S, R, H, E] of each part of the keys, R = G * NQ nodes of a seed
    node_parts,  # [SPLITS, S, R, H * D]
    log_sums,  # [SPLITS, S, R, H], base 2, minus infinity for a part without keys
    weight,  # [S, 3 * H * D, E], of the edges' dtype
    messages,  # [S, R, H * D]
    context,  # c [S, R, H, E]: written where there are several parts
    log_sum,  # [S, R, H]: likewise
    nodes,
    ROWS: tl.constexpr, SPLITS: tl.constexpr, PRECISION: tl.constexpr,
    HEADS: tl.constexpr, HEAD_SIZE: tl.constexpr, HEAD_PAD: tl.constexpr, GROUP_HEADS: tl.constexpr,
    EDGE_SIZE: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """message_i^h = sum_j a_ij v_j^h + Wv_h c_i^h, for one head of some nodes.

    Parts of the keys count by their shares of the softmax's sum, 2^(log_sums - log_sum).
    """
    WIDTH: tl.constexpr = HEADS * HEAD_SIZE
    CHANNELS: tl.constexpr = HEAD_PAD if HEAD_PAD > 16 else 16
    dtype: tl.constexpr = context.dtype.element_ty
    head = tl.program_id(0)
    seed = tl.program_id(2).to(tl.int64)
    part = tl.num_programs(2).to(tl.int64) * nodes
    contexts += (seed * nodes * HEADS + head) * EDGE_SIZE
    node_parts += seed * nodes * WIDTH + head * HEAD_SIZE
    log_sums += seed * nodes * HEADS + head
    messages += seed * nodes * WIDTH + head * HEAD_SIZE
    context += (seed * nodes * HEADS + head) * EDGE_SIZE
    log_sum += seed * nodes * HEADS + head
    weight += ((seed * 3 + 2) * WIDTH + head * HEAD_SIZE) * EDGE_SIZE
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    valid = rows < nodes
    within = tl.arange(0, CHANNELS)
    c = load_chunks(contexts, rows, valid, HEADS * EDGE_SIZE, EDGE_SIZE, CHUNK, CHUNKS)
    result = load_rows(node_parts, rows, valid, WIDTH, HEAD_SIZE, CHANNELS)
    if SPLITS > 1:
        largest = tl.load(log_sums + rows * HEADS, mask=valid, other=float("-inf"))
        total = tl.where(largest == float("-inf"), 0.0, 1.0)
        for _ in range(1, SPLITS):
            contexts += part * HEADS * EDGE_SIZE
            node_parts += part * WIDTH
            log_sums += part * HEADS
            logarithm = tl.load(log_sums + rows * HEADS, mask=valid, other=float("-inf"))
            new_largest = tl.maximum(largest, logarithm)
            finite = tl.where(new_largest == float("-inf"), 0.0, new_largest)
            shrink = tl.exp2(largest - finite)
            share = tl.exp2(logarithm - finite)
            largest = new_largest
            total = total * shrink + share
            result *= shrink[:, None]
            result += share[:, None] * load_rows(node_parts, rows, valid, WIDTH, HEAD_SIZE, CHANNELS)
            other = load_chunks(contexts, rows, valid, HEADS * EDGE_SIZE, EDGE_SIZE, CHUNK, CHUNKS)
            new_c = ()
            for chunk in tl.static_range(CHUNKS):
                new_c = new_c + (c[chunk] * shrink[:, None] + other[chunk] * share[:, None],)  # noqa: RUF005
            c = new_c
        seen = total > 0.0
        inverse = tl.where(seen, 1.0 / tl.where(seen, total, 1.0), 0.0)
        logarithm = tl.where(seen, largest + tl.log2(tl.where(seen, total, 1.0)), 0.0)
        tl.store(log_sum + rows * HEADS, logarithm, mask=valid)
        result *= inverse[:, None]
        new_c = ()
        for chunk in tl.static_range(CHUNKS):
            tile = (c[chunk] * inverse[:, None]).to(dtype)
            store_chunk(context, rows, valid, HEADS * EDGE_SIZE, tile, chunk, EDGE_SIZE)
            new_c = new_c + (tile,)  # noqa: RUF005
        c = new_c
    value_weight = load_chunks(weight, within, within < HEAD_SIZE, EDGE_SIZE, EDGE_SIZE, CHUNK, CHUNKS)
    for chunk in tl.static_range(CHUNKS):
        result = tl.dot(c[chunk], tl.trans(value_weight[chunk]), result, input_precision=PRECISION)
    store_rows(messages, rows, valid, WIDTH, result, HEAD_SIZE)


@triton.jit
def attention_lift_kernel(
    gradient,  # g [S, R, H * D]
    messages,  # [S, R, H * D]
    weight,  # [S, 3 * H * D, E], of the edges' dtype
    lifted,  # u [S, R, H, E]
    delta,  # [S, R, H]
    nodes,
    ROWS: tl.constexpr, PRECISION: tl.constexpr,
    HEADS: tl.constexpr, HEAD_SIZE: tl.constexpr, HEAD_PAD: tl.constexpr, GROUP_HEADS: tl.constexpr,
    EDGE_SIZE: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """u_i^h = Wv_h^T g_i^h and delta_i^h = g_i^h . message_i^h, for one head of some nodes."""
    WIDTH: tl.constexpr = HEADS * HEAD_SIZE
    CHANNELS: tl.constexpr = HEAD_PAD if HEAD_PAD > 16 else 16
    dtype: tl.constexpr = lifted.dtype.element_ty
    head = tl.program_id(0)
    seed = tl.program_id(2).to(tl.int64)
    gradient += seed * nodes * WIDTH + head * HEAD_SIZE
    messages += seed * nodes * WIDTH + head * HEAD_SIZE
    lifted += (seed * nodes * HEADS + head) * EDGE_SIZE
    delta += seed * nodes * HEADS + head
    weight += ((seed * 3 + 2) * WIDTH + head * HEAD_SIZE) * EDGE_SIZE
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    valid = rows < nodes
    within = tl.arange(0, CHANNELS)
    g = load_rows(gradient, rows, valid, WIDTH, HEAD_SIZE, CHANNELS)
    message = load_rows(messages, rows, valid, WIDTH, HEAD_SIZE, CHANNELS)
    tl.store(delta + rows * HEADS, tl.sum(g.to(tl.float32) * message.to(tl.float32), axis=1), mask=valid)
    value_weight = load_chunks(weight, within, within < HEAD_SIZE, EDGE_SIZE, EDGE_SIZE, CHUNK, CHUNKS)
    for chunk in tl.static_range(CHUNKS):
        u = tl.dot(g.to(dtype), value_weight[chunk], input_precision=PRECISION)
        store_chunk(lifted, rows, valid, HEADS * EDGE_SIZE, u, chunk, EDGE_SIZE)


@triton.jit
def attention_value_weight_kernel(
    gradient,  # g [S, R, H * D]
    context,  # c [S, R, H, E]
    weight_gradient,  # [S, H * D, E] of each part, by strides
    nodes, part_stride, seed_stride,
    ROWS: tl.constexpr, PRECISION: tl.constexpr,
    HEADS: tl.constexpr, HEAD_SIZE: tl.constexpr, HEAD_PAD: tl.constexpr, GROUP_HEADS: tl.constexpr,
    EDGE_SIZE: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """dWv_h = sum_i g_i^h c_i^hT, for one head and one part of the nodes."""
    WIDTH: tl.constexpr = HEADS * HEAD_SIZE
    CHANNELS: tl.constexpr = HEAD_PAD if HEAD_PAD > 16 else 16
    head = tl.program_id(0)
    part = tl.program_id(1).to(tl.int64)
    seed = tl.program_id(2).to(tl.int64)
    gradient += seed * nodes * WIDTH + head * HEAD_SIZE
    context += (seed * nodes * HEADS + head) * EDGE_SIZE
    weight_gradient += part * part_stride + seed * seed_stride + head * HEAD_SIZE * EDGE_SIZE
    sums = ()
    for _ in tl.static_range(CHUNKS):
        sums = sums + (tl.zeros((CHANNELS, CHUNK), tl.float32),)  # noqa: RUF005
    for start in range(tl.program_id(1) * ROWS, nodes, tl.num_programs(1) * ROWS):
        rows = start + tl.arange(0, ROWS)
        valid = rows < nodes
        g = load_rows(gradient, rows, valid, WIDTH, HEAD_SIZE, CHANNELS)
        c = load_chunks(context, rows, valid, HEADS * EDGE_SIZE, EDGE_SIZE, CHUNK, CHUNKS)
        new_sums = ()
        for chunk in tl.static_range(CHUNKS):
            update = tl.dot(tl.trans(g.to(c[chunk].dtype)), c[chunk], sums[chunk], input_precision=PRECISION)
            new_sums = new_sums + (update,)  # noqa: RUF005
        sums = new_sums
    within = tl.arange(0, CHANNELS)
    for chunk in tl.static_range(CHUNKS):
        store_chunk(weight_gradient, within, within < HEAD_SIZE, EDGE_SIZE, sums[chunk], chunk, EDGE_SIZE)
