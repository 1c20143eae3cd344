"""The weights of a layer as the kernels read them: matrices in the order of their fragments, vectors one after another.

Parts of an edge update are there only where a layer has one, here as in the kernels.
"""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from .arguments import LayerWeights
from .layouts import by_warps, eights, fragments, left_fragments, lefts, neighbours, pairs, tiles
from .parameters import (
    CHANNELS,
    EDGE_BIAS,
    EDGE_HIDDEN,
    HEADS,
    MESSAGE_HIDDEN,
    MESSAGE_IN,
    NODE_BIAS,
    NODE_HIDDEN,
    has_edge_update,
    of_layer,
)

FEED_FORWARD_BIAS = "edge_update.feed_forward_out.bias"

MATRICES = {
    "attention.node_qkv.weight": (3 * CHANNELS, CHANNELS),
    "attention.edge_qkv.weight": (3 * CHANNELS, CHANNELS),
    "node_output.weight": (CHANNELS, CHANNELS),
    "node_feed_forward_in.weight": (NODE_HIDDEN, CHANNELS),
    "node_feed_forward_out.weight": (CHANNELS, NODE_HIDDEN),
    "edge_update.message_in.weight": (MESSAGE_HIDDEN, 4 * CHANNELS),
    "edge_update.message_out.weight": (CHANNELS, MESSAGE_HIDDEN),
    "edge_update.feed_forward_in.weight": (EDGE_HIDDEN, CHANNELS),
    "edge_update.feed_forward_out.weight": (CHANNELS, EDGE_HIDDEN),
}
"""Their shapes, in the order in which `Orders` numbers them."""

FORWARD_VECTORS = (
    "attention.node_qkv.bias",
    "node_output.bias",
    "node_norm.weight",
    "node_norm.bias",
    "node_feed_forward_in.bias",
    "node_feed_forward_out.bias",
    "node_feed_forward_norm.weight",
    "node_feed_forward_norm.bias",
    "edge_update.message_in.bias",
    "edge_update.message_out.bias",
    "edge_update.norm.weight",
    "edge_update.norm.bias",
    "edge_update.feed_forward_in.bias",
    "edge_update.feed_forward_norm.weight",
    "edge_update.feed_forward_norm.bias",
)
"""`PackedVectors` of the forward kernel. The edges' bias is added to the nodes', which acts on the same pairs; the
output bias of the edges' feed-forward lies in its matrix."""

BACKWARD_VECTORS = (
    "edge_update.norm.weight",
    "edge_update.feed_forward_norm.weight",
    "edge_update.norm.bias",
    "node_norm.weight",
    "node_feed_forward_norm.weight",
)
"""The order of a seed's vectors in the backward kernel."""


class Packed(NamedTuple):
    """What the kernels read of a layer's weights, [S, packed]: matrices bfloat16, vectors float32."""

    forward_matrices: Tensor
    forward_vectors: Tensor
    backward_matrices: Tensor
    backward_vectors: Tensor

    @property
    def forward_weights(self) -> LayerWeights:
        return LayerWeights(self.forward_matrices.data_ptr(), self.forward_vectors.data_ptr())


class Orders(NamedTuple):
    """Which of a seed's numbers stands where in its packed matrices."""

    forward: Tensor
    backward: Tensor


@cache
def orders_on(device: torch.device, update_edges: bool) -> Orders:
    """The orders of packed matrices, on a device."""
    numbered = _numbered(update_edges)
    return Orders(_packed_forward(numbered).to(device), _packed_backward(numbered).to(device))


def pack(parameters: Mapping[str, Tensor], orders: Orders) -> Packed:
    """Lay out the weights of a layer for both kernels."""
    return Packed(*pack_forward(parameters, orders), *pack_backward(parameters, orders))


def pack_forward(parameters: Mapping[str, Tensor], orders: Orders) -> tuple[Tensor, Tensor]:
    """What the forward kernel reads."""
    update_edges = has_edge_update(parameters)
    flat = [parameters[name].flatten(1) for name in of_layer(MATRICES, update_edges)]
    if update_edges:
        bias = parameters[FEED_FORWARD_BIAS].float()
        rounded = bias.bfloat16()  # the bias in two numbers: products with 1
        rest = (bias - rounded.float()).bfloat16()
        flat += [rounded, rest, torch.zeros_like(rest[:, :1])]
    matrices = torch.cat(flat, dim=1).index_select(1, orders.forward)
    vectors = {name: parameters[name].float() for name in of_layer(FORWARD_VECTORS, update_edges)}
    vectors[NODE_BIAS] = vectors[NODE_BIAS] + parameters[EDGE_BIAS].float()
    return matrices.contiguous(), torch.cat(list(vectors.values()), dim=1)


def pack_backward(parameters: Mapping[str, Tensor], orders: Orders) -> tuple[Tensor, Tensor]:
    """What the backward kernel reads."""
    update_edges = has_edge_update(parameters)
    flat = torch.cat([parameters[name].flatten(1) for name in of_layer(MATRICES, update_edges)], dim=1)
    vectors = torch.cat([parameters[name] for name in of_layer(BACKWARD_VECTORS, update_edges)], dim=1).float()
    return flat.index_select(1, orders.backward).contiguous(), vectors


def _numbered(update_edges: bool) -> dict[str, Tensor]:
    shapes = {name: MATRICES[name] for name in of_layer(MATRICES, update_edges)}
    sizes = [torch.Size(shape).numel() for shape in shapes.values()]
    numbers = torch.arange(sum(sizes)).split(sizes)
    return {name: block.view(shape) for (name, shape), block in zip(shapes.items(), numbers, strict=True)}


def _packed_forward(matrices: Mapping[str, Tensor]) -> Tensor:
    """`PackedMatrices` of the forward kernel, of matrices, and in an edge update of the feed-forward's bias, what
    rounding left of it, and a zero."""
    query, key, value = matrices["attention.edge_qkv.weight"].split(CHANNELS)
    by_head = torch.stack([query.unflatten(0, (HEADS, -1)), key.unflatten(0, (HEADS, -1))], dim=1)
    packed = [
        tiles(matrices["attention.node_qkv.weight"]),
        lefts(by_head.flatten(0, 2)),
        lefts(value),
        tiles(matrices["node_output.weight"]),
        tiles(matrices["node_feed_forward_in.weight"]),
        tiles(matrices["node_feed_forward_out.weight"]),
    ]
    if has_edge_update(matrices):
        own, reverse, sender, receiver = matrices[MESSAGE_IN].split(CHANNELS, dim=1)
        feed_out = matrices["edge_update.feed_forward_out.weight"]
        bias = int(feed_out.max()) + 1 + torch.arange(2 * CHANNELS).view(2, -1).T
        zeros = bias.max() + 1 + torch.zeros(CHANNELS, 6, dtype=torch.long)
        packed += [
            lefts(torch.cat([own, reverse])),
            tiles(torch.cat([sender, receiver])),
            tiles(matrices["edge_update.feed_forward_in.weight"], permuted=True),
            pairs(matrices["edge_update.message_out.weight"]),
            pairs(torch.cat([feed_out, bias, zeros], dim=1)),
        ]
    return torch.cat(packed)


def _packed_backward(matrices: Mapping[str, Tensor]) -> Tensor:
    """Packed weights of the backward kernel."""
    query_key, value = matrices["attention.edge_qkv.weight"].split([2 * CHANNELS, CHANNELS])
    packed: list[Tensor] = []
    to_edges = [query_key.T]
    if has_edge_update(matrices):
        own, reverse, sender, receiver = matrices[MESSAGE_IN].split(CHANNELS, dim=1)
        feed_in = matrices["edge_update.feed_forward_in.weight"]
        packed += [
            feed_in.reshape(-1),
            fragments(matrices["edge_update.feed_forward_out.weight"].T, permuted=True),
            eights(feed_in.T).reshape(-1, 4, 32, 2).transpose(1, 2).reshape(-1),
            fragments(matrices["edge_update.message_out.weight"].T, permuted=True),
            fragments(torch.cat([sender, receiver]).T),
        ]
        to_edges += [own.T, reverse.T]
    packed += [
        fragments(matrices["node_feed_forward_out.weight"].T),
        fragments(matrices["node_feed_forward_in.weight"].T),
        fragments(matrices["node_output.weight"].T),
        fragments(matrices["attention.node_qkv.weight"].T, permuted=True),
        fragments(neighbours(query_key)),
        left_fragments(eights(value.T)).transpose(0, 1).reshape(-1),
        fragments(by_warps(torch.cat(to_edges, dim=1))),
    ]
    return torch.cat(packed)
