"""The parameters of a layer by their names, and the form in which the kernels make their gradients."""

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

CHANNELS, HEADS, HEAD_SIZE, NODE_HIDDEN, MESSAGE_HIDDEN, EDGE_HIDDEN = 192, 12, 16, 32, 16, 8
"""Sizes of the paper's model, which the kernels are written for."""

NAMES: tuple[str, ...] = (
    "attention.node_qkv.weight",
    "attention.node_qkv.bias",
    "attention.edge_qkv.weight",
    "attention.edge_qkv.bias",
    "node_output.weight",
    "node_output.bias",
    "node_norm.weight",
    "node_norm.bias",
    "node_feed_forward_in.weight",
    "node_feed_forward_in.bias",
    "node_feed_forward_out.weight",
    "node_feed_forward_out.bias",
    "node_feed_forward_norm.weight",
    "node_feed_forward_norm.bias",
    "edge_update.message_in.weight",
    "edge_update.message_in.bias",
    "edge_update.message_out.weight",
    "edge_update.message_out.bias",
    "edge_update.norm.weight",
    "edge_update.norm.bias",
    "edge_update.feed_forward_in.weight",
    "edge_update.feed_forward_in.bias",
    "edge_update.feed_forward_out.weight",
    "edge_update.feed_forward_out.bias",
    "edge_update.feed_forward_norm.weight",
    "edge_update.feed_forward_norm.bias",
)
"""Of a `RelationalTransformerLayer`; every one is [S, *shape] here."""

NODE_BIAS, EDGE_BIAS = "attention.node_qkv.bias", "attention.edge_qkv.bias"
MESSAGE_IN = "edge_update.message_in.weight"

SUMS: dict[str, tuple[int, ...]] = {
    "edge_update.own": (MESSAGE_HIDDEN, CHANNELS),
    "edge_update.reverse": (MESSAGE_HIDDEN, CHANNELS),
    "edge_update.message_out.weight": (MESSAGE_HIDDEN, CHANNELS),  # turned round, as the next
    "edge_update.feed_forward_out.weight": (EDGE_HIDDEN, CHANNELS),
    "edge_update.feed_forward_in.weight": (EDGE_HIDDEN, CHANNELS),
    "edge_update.feed_forward_norm.bias": (CHANNELS,),
    "edge_update.feed_forward_norm.weight": (CHANNELS,),
    "edge_update.feed_forward_out.bias": (CHANNELS,),
    "edge_update.norm.weight": (CHANNELS,),
    "edge_update.message_out.bias": (CHANNELS,),
    "edge_update.norm.bias": (CHANNELS,),
    "node_feed_forward_norm.weight": (CHANNELS,),
    "node_feed_forward_norm.bias": (CHANNELS,),
    "node_feed_forward_out.bias": (CHANNELS,),
    "node_norm.weight": (CHANNELS,),
    "node_norm.bias": (CHANNELS,),
    "node_output.bias": (CHANNELS,),
    "attention.node_qkv.bias": (3 * CHANNELS,),
    "node_feed_forward_in.bias": (NODE_HIDDEN,),
    "edge_update.message_in.bias": (MESSAGE_HIDDEN,),
    "edge_update.feed_forward_in.bias": (EDGE_HIDDEN,),
    "edge_update.unused": (8,),
}
"""Gradients that the backward kernel adds up over a graph, in the order of its buffer."""
TURNED = ("edge_update.message_out.weight", "edge_update.feed_forward_out.weight")


def of_layer(names: Iterable[str], update_edges: bool) -> tuple[str, ...]:
    """Those of the names that a layer has: all, or without an edge update the others."""
    return tuple(name for name in names if update_edges or not name.startswith("edge_update."))


def has_edge_update(names: Container[str]) -> bool:
    """Whether a layer with parameters of these names updates its edges."""
    return MESSAGE_IN in names


def num_sums(update_edges: bool) -> int:
    """How many numbers the backward kernel adds up over a graph."""
    return sum(torch.Size(SUMS[name]).numel() for name in of_layer(SUMS, update_edges))


class Learnt(NamedTuple):
    """The parameters of a layer in the form in which the gradients are made: matrices [S, out, in] whose gradients are
    products of rows, and all others in the order of `SUMS`, [S, sums]. Without an edge update `ends` is [S, 0, in]."""

    node_qkv: Tensor
    edge_qkv: Tensor
    output: Tensor
    node_in: Tensor
    node_out: Tensor
    ends: Tensor
    sums: Tensor


def as_learnt(parameters: Mapping[str, Tensor]) -> Learnt:
    """Bring parameters [S, *shape] into that form; `gradients_by_name` is the way back for gradients."""
    update_edges = has_edge_update(parameters)
    named = {**parameters, NODE_BIAS: parameters[NODE_BIAS] + parameters[EDGE_BIAS]}
    ends = parameters[NODE_BIAS].new_empty(len(parameters[NODE_BIAS]), 0, CHANNELS)
    if update_edges:
        own, reverse, sender, receiver = parameters[MESSAGE_IN].split(CHANNELS, dim=2)
        named |= {"edge_update.own": own, "edge_update.reverse": reverse}
        named |= {name: parameters[name].transpose(1, 2) for name in TURNED}
        named["edge_update.unused"] = torch.zeros_like(parameters["edge_update.feed_forward_in.bias"])
        ends = torch.cat([sender, receiver], dim=1)
    return Learnt(
        node_qkv=parameters["attention.node_qkv.weight"],
        edge_qkv=parameters["attention.edge_qkv.weight"],
        output=parameters["node_output.weight"],
        node_in=parameters["node_feed_forward_in.weight"],
        node_out=parameters["node_feed_forward_out.weight"],
        ends=ends,
        sums=torch.cat([named[name].flatten(1) for name in of_layer(SUMS, update_edges)], dim=1),
    )


def gradients_by_name(gradients: Learnt) -> dict[str, Tensor]:
    """The gradient of every parameter, [S, *shape], by name."""
    node_qkv, edge_qkv, output, node_in, node_out, ends, sums = gradients
    update_edges = ends.shape[1] > 0
    shapes = {name: SUMS[name] for name in of_layer(SUMS, update_edges)}
    pieces = sums.split([torch.Size(shape).numel() for shape in shapes.values()], dim=1)
    named = {name: piece.unflatten(1, shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
    named |= {
        "attention.node_qkv.weight": node_qkv,
        "attention.edge_qkv.weight": edge_qkv,
        EDGE_BIAS: named[NODE_BIAS],
        "node_output.weight": output,
        "node_feed_forward_in.weight": node_in,
        "node_feed_forward_out.weight": node_out,
    }
    if update_edges:
        own, reverse = named["edge_update.own"], named["edge_update.reverse"]
        named[MESSAGE_IN] = torch.cat([own, reverse, *ends.chunk(2, dim=1)], dim=2)
        named |= {name: named[name].transpose(1, 2) for name in TURNED}
    return {name: named[name] for name in of_layer(NAMES, update_edges)}
