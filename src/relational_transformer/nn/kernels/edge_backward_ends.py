"""The edge update, backward, its last step: what the nodes at both ends of the edges get."""

import triton
import triton.language as tl

from relational_transformer.nn.kernels.tiles import load_rows


@triton.jit
def edge_backward_ends_kernel(
    sides,  # (dm_ij, dm_ji, ...) [S * G * N, N, SIDES]
    ends,  # [S * G * N, WIDTH], in float32
    nodes,
    ROWS: tl.constexpr,
    SIDES: tl.constexpr,
    WIDTH: tl.constexpr,  # of dm_ij and dm_ji
    WIDTH_PAD: tl.constexpr,
):
    """sum_j dm_ij, for the receiver i, and sum_j dm_ji, for the sender i, of one node i, ROWS edges at a time."""
    node = tl.program_id(0).to(tl.int64)
    sides += node * nodes * SIDES
    total = tl.zeros((ROWS, WIDTH_PAD), tl.float32)
    for start in range(0, nodes, ROWS):
        j = start + tl.arange(0, ROWS)
        total += load_rows(sides, j, j < nodes, SIDES, WIDTH, WIDTH_PAD).to(tl.float32)
    columns = tl.arange(0, WIDTH_PAD)
    tl.store(ends + node * WIDTH + columns, tl.sum(total, axis=0), mask=columns < WIDTH)
