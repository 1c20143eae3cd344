"""The edge update, backward, in three kernels over the edges and four products of cuBLAS.

From the edges, their hidden layers h = (m, f, 1) and the LayerNorms' means and deviations, what lay between is made
again: z = W_5 m + b_5 + e, what the first LayerNorm reads, and y = W_7 f + b_7 + u, what the last one does.

1. Feed: from the gradient of the new edges back to dy and f. Then sum h dy^T, for W_7 and b_7.
2. Message: from dy and df back to dz, in dy's place, and m. Then sum h dz^T, for W_5 and b_5.
3. dm_ij and dm_ji now lie side by side: de_ij = dz_ij + W_e^T dm_ij + W_r^T dm_ji is one product, added in place, and
   what W_e, W_r and W_6 get is another (`EdgeSums.gradients` says how). A small kernel sums them for the nodes.

So nothing of the edges' size is written but their gradient. The kernels' programs write their parts of the sums that
are no products; nothing is added by atomics: the same inputs give the same bits.
"""

import torch
from torch import Tensor

from relational_transformer.nn.kernels.edge_backward_ends import edge_backward_ends_kernel
from relational_transformer.nn.kernels.edge_backward_feed import edge_backward_feed_kernel
from relational_transformer.nn.kernels.edge_backward_message import edge_backward_message_kernel
from relational_transformer.nn.kernels.edge_parameters import EdgeSums, sides_width
from relational_transformer.nn.kernels.edge_sums import parts_of_outer_products, parts_of_rows
from relational_transformer.nn.kernels.edge_tiles import edge_sizes, in_float
from relational_transformer.nn.kernels.tiles import one_warp, padded, programs_at_once

REGISTERS = 255  # all there are: with fewer, what does not fit into registers does not fit into the cache either
END_ROWS = 64


def edge_update_backward(
    gradient: Tensor,
    edges: Tensor,
    hidden: Tensor,
    statistics: Tensor,
    both_weights: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    feed_in_weight: Tensor,
    feed_out_weight: Tensor,
    feed_out_bias: Tensor,
    feed_norm_weight: Tensor,
) -> tuple[Tensor, Tensor, EdgeSums]:
    """Gradients of the edges and of both their ends [S, G, N, 2 * M], and the sums that give those of the parameters.

    `both_weights` [S, 2 * M, E] are W_e and W_r, in the edges' dtype.
    """
    message_size, feed_size = out_weight.shape[-1], feed_out_weight.shape[-1]
    sizes = edge_sizes(edges, message_size, feed_size)
    programs = sizes.programs(programs_at_once(REGISTERS))
    out_weight, feed_in_weight, feed_out_weight = (
        weight.to(edges.dtype) for weight in (out_weight, feed_in_weight, feed_out_weight)
    )
    out_bias, norm_weight, norm_bias, feed_out_bias, feed_norm_weight = in_float(
        out_bias, norm_weight, norm_bias, feed_out_bias, feed_norm_weight
    )
    edge_gradient = torch.empty_like(edges)
    feed_gradient = edges.new_empty(sizes.seeds, sizes.rows, feed_size, dtype=torch.float32)
    sides = edges.new_empty(sizes.seeds, sizes.rows, sides_width(message_size, feed_size))
    new = edges.new_empty if sizes.rows > 0 else edges.new_zeros
    within_size = 3 * sizes.edge_size + feed_size * (message_size + 2)
    within = new((sizes.seeds, programs, within_size), dtype=torch.float32)
    edge_rows, hidden_rows, gradient_rows = (t.flatten(1, 3) for t in (edges, hidden, edge_gradient))
    parts = parts_of_rows(sizes.rows, sizes.seeds * -(-sizes.edge_size // 128))
    constants = sizes.constants()
    if sizes.rows > 0:
        edge_backward_feed_kernel[(programs, sizes.seeds)](
            gradient,
            edges,
            hidden,
            statistics,
            out_weight,
            out_bias,
            norm_weight,
            norm_bias,
            feed_out_weight,
            feed_out_bias,
            feed_norm_weight,
            edge_gradient,
            feed_gradient,
            within,
            sizes.rows,
            **constants,
            **one_warp(REGISTERS),
        )
    by_last = parts_of_outer_products(hidden_rows, gradient_rows, parts)
    if sizes.rows > 0:
        edge_backward_message_kernel[(programs, sizes.seeds)](
            edges,
            hidden,
            statistics,
            out_weight,
            out_bias,
            norm_weight,
            feed_in_weight,
            feed_gradient,
            edge_gradient,
            sides,
            within,
            sizes.rows,
            sizes.nodes,
            **constants,
            SIDES=sides.shape[-1],
            **one_warp(REGISTERS),
        )
    by_first = parts_of_outer_products(hidden_rows, gradient_rows, parts)
    by_edge = parts_of_outer_products(sides, edge_rows, parts)
    products = torch.cat([by_last, by_first, by_edge], dim=2).sum(1)
    gradient_rows.baddbmm_(sides[..., : 2 * message_size], both_weights)
    ends = edges.new_empty(*edges.shape[:3], 2 * message_size, dtype=torch.float32)
    if sizes.rows > 0:
        edge_backward_ends_kernel[(ends[..., 0].numel(),)](
            sides,
            ends,
            sizes.nodes,
            ROWS=END_ROWS,
            SIDES=sides.shape[-1],
            WIDTH=2 * message_size,
            WIDTH_PAD=padded(2 * message_size),
            num_warps=2,
        )
    return edge_gradient, ends, EdgeSums(products, within.sum(1))
