"""The gradient of the edges from dq_ij, dk_ij, the attention weights and the lifted gradient u_i."""

import triton
import triton.language as tl

from relational_transformer.nn.kernels.tiles import group_columns, load_matrix, spread_rows


@triton.jit
def attention_edge_gradient_kernel(
    pairs,  # dq_ij, dk_ij [S, C, NQ * NK, 2 * H * D] of the graphs first ... first + C
    attention,  # a_ij [S, C, NQ * NK, H]
    lifted,  # u [S, G, NQ, H, E]
    weight,  # [S, 3 * H * D, E]
    edge_gradient,  # [S, G, NQ, NK, E]
    first,
    count,
    graphs,
    queries,
    keys,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    PRECISION: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PAD: tl.constexpr,
    GROUP_HEADS: tl.constexpr,
    EDGE_SIZE: tl.constexpr,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    """de_ij = Wq^T dq_ij + Wk^T dk_ij + sum_h a_ij^h u_i^h, for one tile of edges of one graph."""
    GROUPS: tl.constexpr = (HEADS + GROUP_HEADS - 1) // GROUP_HEADS
    WIDTH: tl.constexpr = HEADS * HEAD_SIZE
    TILE: tl.constexpr = ROWS * KEYS
    dtype: tl.constexpr = edge_gradient.dtype.element_ty

    key_blocks = (keys + KEYS - 1) // KEYS
    row_start = tl.program_id(0) // key_blocks * ROWS
    edge_row = row_start + tl.arange(0, TILE) // KEYS
    edge_key = tl.program_id(0) % key_blocks * KEYS + tl.arange(0, TILE) % KEYS
    edge_valid = (edge_row < queries) & (edge_key < keys)
    edge_index = edge_row * keys + edge_key
    seed = tl.program_id(2).to(tl.int64)
    graph = seed * graphs + first + tl.program_id(1)
    buffer = seed * count + tl.program_id(1)
    pairs += buffer * queries * keys * 2 * WIDTH
    attention += buffer * queries * keys * HEADS
    lifted += graph * queries * HEADS * EDGE_SIZE
    weight += seed * 3 * WIDTH * EDGE_SIZE
    edge_gradient += graph * queries * keys * EDGE_SIZE

    sums = ()
    for _ in tl.static_range(CHUNKS):
        sums = sums + (tl.zeros((TILE, CHUNK), tl.float32),)  # noqa: RUF005
    for group in range(GROUPS):
        columns, column_valid = group_columns(group, HEADS, HEAD_SIZE, HEAD_PAD, GROUP_HEADS)
        heads = group * GROUP_HEADS + tl.arange(0, GROUP_HEADS)
        lifted_row = row_start + tl.arange(0, ROWS * GROUP_HEADS) // GROUP_HEADS
        lifted_head = group * GROUP_HEADS + tl.arange(0, ROWS * GROUP_HEADS) % GROUP_HEADS
        lifted_valid = (lifted_row < queries) & (lifted_head < HEADS)
        edge_query_gradient = load_matrix(pairs, edge_index, edge_valid, columns, column_valid, 2 * WIDTH)
        edge_key_gradient = load_matrix(pairs + WIDTH, edge_index, edge_valid, columns, column_valid, 2 * WIDTH)
        weights = load_matrix(attention, edge_index, edge_valid, heads, heads < HEADS, HEADS)
        blocks = spread_rows(weights.to(tl.float32), ROWS, KEYS).to(dtype)  # [T, ROWS * GH]
        new_sums = ()
        for chunk in tl.static_range(CHUNKS):
            channels = chunk * CHUNK + tl.arange(0, CHUNK)
            channel_valid = channels < EDGE_SIZE
            query_weight = load_matrix(weight, columns, column_valid, channels, channel_valid, EDGE_SIZE)
            key_weight = load_matrix(weight, WIDTH + columns, column_valid, channels, channel_valid, EDGE_SIZE)
            u = load_matrix(
                lifted, lifted_row * HEADS + lifted_head, lifted_valid, channels, channel_valid, EDGE_SIZE
            )
            update = tl.dot(edge_query_gradient, query_weight.to(dtype), sums[chunk], input_precision=PRECISION)
            update = tl.dot(edge_key_gradient, key_weight.to(dtype), update, input_precision=PRECISION)
            update = tl.dot(blocks, u, update, input_precision=PRECISION)
            new_sums = new_sums + (update,)  # noqa: RUF005
        sums = new_sums
    for chunk in tl.static_range(CHUNKS):
        channels = chunk * CHUNK + tl.arange(0, CHUNK)
        where = edge_index[:, None] * EDGE_SIZE + channels[None, :]
        valid = edge_valid[:, None] & (channels < EDGE_SIZE)[None, :]
        tl.store(edge_gradient + where, sums[chunk].to(dtype), mask=valid)
