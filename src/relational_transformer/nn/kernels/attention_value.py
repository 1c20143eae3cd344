"""The values' part of attention, forward and backward: everything here is of the nodes' size."""

import triton
import triton.language as tl

from relational_transformer.nn.kernels.tiles import load_chunks, load_rows, store_chunk, store_rows


@triton.jit
def attention_project_kernel(
    context,  # c [S, R, H, E], R = G * NQ nodes of a seed
    node_part,  # [S, R, H * D]
    weight,  # [S, 3 * H * D, E], of the edges' dtype
    messages,  # [S, R, H * D]
    nodes,
    ROWS: tl.constexpr,
    PRECISION: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PAD: tl.constexpr,
    GROUP_HEADS: tl.constexpr,
    EDGE_SIZE: tl.constexpr,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    """message_i^h = sum_j a_ij v_j^h + Wv_h c_i^h, for one head of some nodes."""
    WIDTH: tl.constexpr = HEADS * HEAD_SIZE
    CHANNELS: tl.constexpr = HEAD_PAD if HEAD_PAD > 16 else 16
    head = tl.program_id(0)
    seed = tl.program_id(2).to(tl.int64)
    context += (seed * nodes * HEADS + head) * EDGE_SIZE
    node_part += seed * nodes * WIDTH + head * HEAD_SIZE
    messages += seed * nodes * WIDTH + head * HEAD_SIZE
    weight += ((seed * 3 + 2) * WIDTH + head * HEAD_SIZE) * EDGE_SIZE
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    valid = rows < nodes
    within = tl.arange(0, CHANNELS)
    c = load_chunks(context, rows, valid, HEADS * EDGE_SIZE, EDGE_SIZE, CHUNK, CHUNKS)
    value_weight = load_chunks(weight, within, within < HEAD_SIZE, EDGE_SIZE, EDGE_SIZE, CHUNK, CHUNKS)
    result = load_rows(node_part, rows, valid, WIDTH, HEAD_SIZE, CHANNELS)
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
    ROWS: tl.constexpr,
    PRECISION: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PAD: tl.constexpr,
    GROUP_HEADS: tl.constexpr,
    EDGE_SIZE: tl.constexpr,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
):
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
    nodes,
    part_stride,
    seed_stride,
    ROWS: tl.constexpr,
    PRECISION: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PAD: tl.constexpr,
    GROUP_HEADS: tl.constexpr,
    EDGE_SIZE: tl.constexpr,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
):
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
