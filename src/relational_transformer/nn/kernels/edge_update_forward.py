"""The edge update, forward: one pass that reads e_ij and e_ji and writes the new e_ij."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels.edge_parameters import padded
from relational_transformer.nn.kernels.edge_tiles import affine, feed_forward, first_normal, message_hidden
from relational_transformer.nn.kernels.tiles import chunk_width, dot_precision


@dataclass(frozen=True)
class EdgeSizes:
    """Sizes of an edge update: N nodes, R = G * N * N edges a seed, and the widths."""

    seeds: int
    nodes: int
    rows: int
    edge_size: int
    message_size: int
    feed_size: int
    dtype: torch.dtype

    def constants(self) -> dict[str, int | str]:
        """The compile-time constants every kernel of the edge update takes."""
        chunk = chunk_width(self.edge_size)
        return {
            "SIZE": self.edge_size,
            "CHUNK": chunk,
            "CHUNKS": triton.cdiv(self.edge_size, chunk),
            "MESSAGE": self.message_size,
            "MESSAGE_PAD": padded(self.message_size),
            "FEED": self.feed_size,
            "FEED_PAD": padded(self.feed_size),
            "PRECISION": dot_precision(self.dtype),
        }


@triton.jit
def edge_update_forward_kernel(
    edges,  # [S, R, E]
    receivers,  # [S, G * N, M]
    senders,  # [S, G * N, M]
    edge_weight,  # [S, M, E] by strides
    reverse_weight,  # [S, M, E] by strides
    out_weight,  # [S, E, M]
    out_bias,  # [S, E]
    norm_weight,  # [S, E]
    norm_bias,  # [S, E]
    feed_in_weight,  # [S, F, E]
    feed_in_bias,  # [S, F]
    feed_out_weight,  # [S, E, F]
    feed_out_bias,  # [S, E]
    feed_norm_weight,  # [S, E]
    feed_norm_bias,  # [S, E]
    output,  # [S, R, E]
    edge_weight_seed_stride,
    edge_weight_stride,
    reverse_weight_seed_stride,
    reverse_weight_stride,
    rows,
    nodes,
    eps,
    TILE: tl.constexpr,
    PRECISION: tl.constexpr,
    SIZE: tl.constexpr,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
    MESSAGE: tl.constexpr,
    MESSAGE_PAD: tl.constexpr,
    FEED: tl.constexpr,
    FEED_PAD: tl.constexpr,
):
    """Some tiles of TILE edges of one seed."""
    dtype: tl.constexpr = edges.dtype.element_ty
    seed = tl.program_id(1).to(tl.int64)
    edges += seed * rows * SIZE
    output += seed * rows * SIZE
    receivers += seed * (rows // nodes) * MESSAGE
    senders += seed * (rows // nodes) * MESSAGE
    edge_weight += seed * edge_weight_seed_stride
    reverse_weight += seed * reverse_weight_seed_stride
    out_weight += seed * SIZE * MESSAGE
    out_bias += seed * SIZE
    norm_weight += seed * SIZE
    norm_bias += seed * SIZE
    feed_in_weight += seed * SIZE * FEED
    feed_in_bias += seed * FEED
    feed_out_weight += seed * SIZE * FEED
    feed_out_bias += seed * SIZE
    feed_norm_weight += seed * SIZE
    feed_norm_bias += seed * SIZE
    for start in tl.range(tl.program_id(0) * TILE, rows, tl.num_programs(0) * TILE, disable_licm=True):
        row = tl.arange(0, TILE).to(tl.int64) + start
        valid = row < rows
        own, message = message_hidden(
            edges,
            receivers,
            senders,
            edge_weight,
            reverse_weight,
            edge_weight_stride,
            reverse_weight_stride,
            row,
            valid,
            nodes,
            MESSAGE,
            MESSAGE_PAD,
            SIZE,
            CHUNK,
            CHUNKS,
            PRECISION,
        )
        normal, _ = first_normal(
            own, message.to(dtype), out_weight, out_bias, eps, MESSAGE, SIZE, CHUNK, PRECISION
        )
        _, last, _ = feed_forward(
            normal,
            norm_weight,
            norm_bias,
            feed_in_weight,
            feed_in_bias,
            feed_out_weight,
            feed_out_bias,
            eps,
            FEED,
            FEED_PAD,
            SIZE,
            CHUNK,
            PRECISION,
        )
        for chunk in tl.static_range(CHUNKS):
            channels = chunk * CHUNK + tl.arange(0, CHUNK)
            where = row[:, None] * SIZE + channels[None, :]
            new = affine(last, feed_norm_weight, feed_norm_bias, chunk, SIZE, CHUNK)
            tl.store(output + where, new.to(dtype), mask=valid[:, None] & (channels < SIZE)[None, :])


def edge_sizes(edges: Tensor, receivers: Tensor, feed_in_bias: Tensor) -> EdgeSizes:
    seeds, graphs, nodes, _, edge_size = edges.shape
    return EdgeSizes(
        seeds, nodes, graphs * nodes * nodes, edge_size, receivers.shape[-1], feed_in_bias.shape[-1], edges.dtype
    )


def edge_update_forward(
    edges: Tensor, receivers: Tensor, senders: Tensor, parameters: list[Tensor], eps: float
) -> Tensor:
    """New edges [S, G, N, N, E]; `parameters` in the order of `edge_update`'s arguments, each [S, ...]."""
    output = torch.empty_like(edges)
    if edges.numel() == 0:
        return output
    sizes = edge_sizes(edges, receivers, parameters[7])
    options = forward_options(sizes)
    edge_update_forward_kernel[(triton.cdiv(sizes.rows, options["TILE"]), sizes.seeds)](
        edges,
        receivers,
        senders,
        *parameters,
        output,
        *parameters[0].stride()[:2],
        *parameters[1].stride()[:2],
        sizes.rows,
        sizes.nodes,
        eps,
        **options,
        **sizes.constants(),
    )
    return output


def forward_options(sizes: EdgeSizes) -> dict[str, int]:
    return {"TILE": 64, "num_warps": 4, "num_stages": 1}
