"""The parameters of layers without edges by their names, and the forms in which the kernels read and differentiate
them."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from ..layouts import fragments, tiles
from ..packing import Orders
from ..parameters import CHANNELS, NODE_HIDDEN

Parameters = Mapping[str, Tensor]
"""Of one layer, [S, *shape] by their names in a `TransformerLayer`."""

MATRICES = {
    "qkv.weight": (3 * CHANNELS, CHANNELS),
    "output.weight": (CHANNELS, CHANNELS),
    "feed_forward_in.weight": (NODE_HIDDEN, CHANNELS),
    "feed_forward_out.weight": (CHANNELS, NODE_HIDDEN),
}
"""Their shapes, in the order in which `Orders` numbers them."""

FORWARD_VECTORS = (
    *("qkv.bias", "output.bias", "norm.weight", "norm.bias", "feed_forward_in.bias", "feed_forward_out.bias"),
    *("feed_forward_norm.weight", "feed_forward_norm.bias"),
)
"""`PackedVectors` of the forward kernel."""

BACKWARD_VECTORS = ("norm.weight", "feed_forward_norm.weight")
"""The order of a seed's vectors in the backward kernel."""

SUMS = {
    **dict.fromkeys(("feed_forward_norm.weight", "feed_forward_norm.bias", "feed_forward_out.bias"), CHANNELS),
    **dict.fromkeys(("norm.weight", "norm.bias", "output.bias"), CHANNELS),
    "qkv.bias": 3 * CHANNELS,
    "feed_forward_in.bias": NODE_HIDDEN,
}
"""Gradients that the backward kernel adds up over a graph, in the order of its buffer, and how many numbers each is."""

NUM_SUMS = sum(SUMS.values())

NAMES = (*MATRICES, *SUMS)
"""All parameters of a layer."""


class NodeLearnt(NamedTuple):
    """The parameters of all layers in the form in which the gradients are made: matrices [L, S, out, in] whose
    gradients are products of rows, and all others in the order of `SUMS`, [L, S, sums]."""

    qkv: Tensor
    output: Tensor
    feed_forward_in: Tensor
    feed_forward_out: Tensor
    sums: Tensor


class NodePacked(NamedTuple):
    """What the kernels read of the weights of all layers, [L, S, packed]: matrices bfloat16, vectors float32."""

    forward_matrices: Tensor
    forward_vectors: Tensor
    backward_matrices: Tensor
    backward_vectors: Tensor


def as_learnt(layers: Sequence[Parameters]) -> NodeLearnt:
    """Bring the parameters of all layers into that form."""
    matrices = [torch.stack([layer[name] for layer in layers]) for name in MATRICES]
    return NodeLearnt._make([*matrices, _vectors(layers, tuple(SUMS))])


def pack(layers: Sequence[Parameters], orders: Orders) -> NodePacked:
    """Lay out the weights of all layers for both kernels."""
    backward = _matrices(layers).index_select(2, orders.backward), _vectors(layers, BACKWARD_VECTORS).float()
    return NodePacked(*pack_forward(layers, orders), *backward)


def pack_forward(layers: Sequence[Parameters], orders: Orders) -> tuple[Tensor, Tensor]:
    """What the forward kernel reads."""
    return _matrices(layers).index_select(2, orders.forward), _vectors(layers, FORWARD_VECTORS).float()


def _matrices(layers: Sequence[Parameters]) -> Tensor:
    """Those of every seed one after another, [L, S, numbers]."""
    return torch.stack([torch.cat([layer[name].flatten(1) for name in MATRICES], dim=1) for layer in layers])


def _vectors(layers: Sequence[Parameters], names: Sequence[str]) -> Tensor:
    return torch.stack([torch.cat([layer[name] for name in names], dim=1) for layer in layers])


@cache
def orders_on(device: torch.device) -> Orders:
    """Which of a seed's numbers stands where in its packed matrices, on a device."""
    sizes = [torch.Size(shape).numel() for shape in MATRICES.values()]
    numbers = torch.arange(sum(sizes)).split(sizes)
    blocks = (block.view(shape) for block, shape in zip(numbers, MATRICES.values(), strict=True))
    qkv, output, feed_in, feed_out = blocks
    forward = [tiles(qkv), tiles(output), tiles(feed_in), tiles(feed_out)]
    backward = [fragments(feed_out.T), fragments(feed_in.T), fragments(output.T), fragments(qkv.T, permuted=True)]
    return Orders(torch.cat(forward).to(device), torch.cat(backward).to(device))
