"""The gradients of a layer's large weights: products of the rows that its kernels leave."""

from collections.abc import Mapping

import torch
from torch import Tensor

from .parameters import CHANNELS, Learnt

ENOUGH_PRODUCTS = 16
"""The number of products of the queries' and keys' size, each six blocks of 128 x 128 numbers, that fill a large
device."""

FEWEST_ROWS = 1024
"""Shorter sums are not worth cutting."""


def weight_gradients(rows: Mapping[str, Tensor], nodes: Tensor, edges: Tensor, sums: Tensor) -> Learnt:
    """The gradients of a layer's parameters; a seed's matrices are sums over all rows of all its graphs.

    Nodes [S, ..., N, D] and edges [S, ..., N, N, D] are what the layer read; the rows, by name, are what its kernels
    wrote, [S, ..., N, size], but message_gradient and context: [S, H, ..., N, size]. The sums, [S, sums], are complete.
    Several layers are as many times S; edges that none of them updates may be there once, [S, ...].
    """
    edge_qkv = nodes.new_empty(len(nodes), 3 * CHANNELS, CHANNELS)
    query_key, value = edge_qkv.split([2 * CHANNELS, CHANNELS], dim=1)
    once = len(edges)
    for gradient, out in zip(rows["query_key_gradient"].split(once), query_key.split(once), strict=True):
        product(gradient, edges, out=out)
    by_head = product(rows["message_gradient"].flatten(0, 1), rows["context"].flatten(0, 1))  # [S H, D / H, D]
    value.copy_(by_head.view(value.shape))
    has_ends = "send_receive_gradient" in rows  # an edge update reads the new nodes
    return Learnt(
        node_qkv=product(rows["qkv_gradient"], nodes),
        edge_qkv=edge_qkv,
        output=product(rows["output_gradient"], rows["messages"]),
        node_in=product(rows["node_in_gradient"], rows["middle_nodes"]),
        node_out=product(rows["node_out_gradient"], rows["node_hidden"]),
        ends=product(rows["send_receive_gradient"], rows["new_nodes"])
        if has_ends
        else nodes.new_empty(len(nodes), 0, CHANNELS),
        sums=sums,
    )


def product(gradient: Tensor, read: Tensor, out: Tensor | None = None) -> Tensor:
    """Σ gradient^T · read over all rows: [S, ..., out], [S, ..., in] -> [S, out, in]."""
    left, right = gradient.flatten(1, -2), read.flatten(1, -2)
    seeds, pieces = len(left), num_pieces(*left.shape[:2])
    if pieces == 1:
        return torch.bmm(left.transpose(1, 2), right, out=out)
    left, right = (rows.reshape(seeds * pieces, -1, rows.shape[-1]) for rows in (left, right))
    sums = torch.bmm(left.transpose(1, 2), right).unflatten(0, (seeds, pieces))
    return torch.sum(sums, 1, out=out)


def num_pieces(seeds: int, rows: int) -> int:
    """The number of equal pieces into which every seed's sum over `rows` rows is cut: few seeds alone do not fill a
    device."""
    possible = [pieces for pieces in range(1, max(1, rows // FEWEST_ROWS) + 1) if rows % pieces == 0]
    return next((pieces for pieces in possible if seeds * pieces >= ENOUGH_PRODUCTS), possible[-1])
