"""What the values' part of attention's backward pass reads and writes of the edges, without a value of an edge: with
u_i^h = Wv_h^T g_i^h, da_ij^h gets u_i^h . e_ij and de_ij gets sum_h a_ij^h u_i^h.
"""

import triton
import triton.language as tl

from relational_transformer.nn.kernels.tiles import load_chunks, load_columns, load_rows, store_chunk, store_rows


@triton.jit
def attention_through_edges_kernel(
    edges,  # [S, G, NQ, NK, E]
    lifted,  # u [S, G, NQ, H, E]
    through_edges,  # [S, C, rows * NK, H], rows as in `Part`
    first,
    first_row,
    rows,
    graphs,
    queries,
    keys,
    SPLITS: tl.constexpr,  # parts of the keys
    KEYS: tl.constexpr,
    PRECISION: tl.constexpr,
    HEADS: tl.constexpr,
    HEADS_PAD: tl.constexpr,
    EDGE_SIZE: tl.constexpr,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
):
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
def attention_through_values_kernel(
    attention,  # a_ij [S, C, rows * NK, H], rows as in `Part`
    lifted,  # u [S, G, NQ, H, E]
    edge_gradient,  # [S, G, NQ, NK, E]
    first,
    first_row,
    rows,
    graphs,
    queries,
    keys,
    SPLITS: tl.constexpr,  # parts of the keys
    KEYS: tl.constexpr,
    PRECISION: tl.constexpr,
    HEADS: tl.constexpr,
    HEADS_PAD: tl.constexpr,
    EDGE_SIZE: tl.constexpr,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
):
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
