"""The values' part of the attention's backward pass: everything here is of the nodes' size."""

import triton
import triton.language as tl

from relational_transformer.nn.kernels.tiles import load_matrix


@triton.jit
def attention_lift_kernel(
    gradient,  # g [S, R, H * D], R = G * NQ nodes of a seed
    messages,  # [S, R, H * D]
    weight,  # [S, 3 * H * D, E]
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
    WITHIN: tl.constexpr = HEAD_PAD if HEAD_PAD > 16 else 16
    head = tl.program_id(0)
    seed = tl.program_id(2).to(tl.int64)
    gradient += seed * nodes * WIDTH
    messages += seed * nodes * WIDTH
    lifted += seed * nodes * HEADS * EDGE_SIZE
    delta += seed * nodes * HEADS
    weight += (seed * 3 + 2) * WIDTH * EDGE_SIZE

    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    row_valid = rows < nodes
    within = tl.arange(0, WITHIN)
    columns = head * HEAD_SIZE + within
    g = load_matrix(gradient, rows, row_valid, columns, within < HEAD_SIZE, WIDTH)
    message = load_matrix(messages, rows, row_valid, columns, within < HEAD_SIZE, WIDTH)
    tl.store(delta + rows * HEADS + head, tl.sum(g.to(tl.float32) * message.to(tl.float32), axis=1), mask=row_valid)
    g = g.to(lifted.dtype.element_ty)
    for chunk in tl.static_range(CHUNKS):
        channels = chunk * CHUNK + tl.arange(0, CHUNK)
        channel_valid = channels < EDGE_SIZE
        value_weight = load_matrix(weight, columns, within < HEAD_SIZE, channels, channel_valid, EDGE_SIZE)
        product = tl.dot(g, value_weight.to(g.dtype), input_precision=PRECISION)
        where = (rows * HEADS + head)[:, None] * EDGE_SIZE + channels[None, :]
        tl.store(lifted + where, product.to(g.dtype), mask=row_valid[:, None] & channel_valid[None, :])


@triton.jit
def attention_value_weight_kernel(
    gradient,  # g [S, R, H * D]
    context,  # c [S, R, H, E]
    weight_gradient,  # [P, S, H * D, E]: P parts, each the sum over some of the nodes
    nodes,
    seeds,
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
    """dWv_h = sum_i g_i^h c_i^hT, for one head."""
    WIDTH: tl.constexpr = HEADS * HEAD_SIZE
    WITHIN: tl.constexpr = HEAD_PAD if HEAD_PAD > 16 else 16
    head = tl.program_id(0)
    part = tl.program_id(1)
    parts = tl.num_programs(1)
    seed = tl.program_id(2).to(tl.int64)
    gradient += seed * nodes * WIDTH
    context += seed * nodes * HEADS * EDGE_SIZE
    weight_gradient += (part * seeds + seed) * WIDTH * EDGE_SIZE
    within = tl.arange(0, WITHIN)
    columns = head * HEAD_SIZE + within

    sums = ()
    for _ in tl.static_range(CHUNKS):
        sums = sums + (tl.zeros((WITHIN, CHUNK), tl.float32),)  # noqa: RUF005
    for start in range(part * ROWS, nodes, parts * ROWS):
        rows = start + tl.arange(0, ROWS)
        row_valid = rows < nodes
        g = load_matrix(gradient, rows, row_valid, columns, within < HEAD_SIZE, WIDTH)
        new_sums = ()
        for chunk in tl.static_range(CHUNKS):
            channels = chunk * CHUNK + tl.arange(0, CHUNK)
            c = load_matrix(context, rows * HEADS + head, row_valid, channels, channels < EDGE_SIZE, EDGE_SIZE)
            product = tl.dot(tl.trans(g.to(c.dtype)), c, sums[chunk], input_precision=PRECISION)
            new_sums = new_sums + (product,)  # noqa: RUF005
        sums = new_sums
    for chunk in tl.static_range(CHUNKS):
        channels = chunk * CHUNK + tl.arange(0, CHUNK)
        valid = (within < HEAD_SIZE)[:, None] & (channels < EDGE_SIZE)[None, :]
        tl.store(weight_gradient + columns[:, None] * EDGE_SIZE + channels[None, :], sums[chunk], mask=valid)
