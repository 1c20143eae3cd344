"""The parameters of a layer in the kernels' order, and the layouts the kernels read them in."""

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

CHANNELS, HEADS, HEAD_SIZE, NODE_HIDDEN, MESSAGE_HIDDEN, EDGE_HIDDEN = 192, 12, 16, 32, 16, 8
"""Sizes of the paper's model, which the kernels are written for."""

HIDDEN_ROW = 32
"""`kHiddenRow` of tile.cuh."""

NORMAL_ROW = 2 * CHANNELS + 8
"""`kNormalRow` of tile.cuh."""

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

VECTORS = tuple(name for name in NAMES if name.endswith("bias") or "norm" in name)
MATRICES = tuple(name for name in NAMES if name not in VECTORS)
EDGE_BIAS = "attention.edge_qkv.bias"
FEED_FORWARD_BIAS = "edge_update.feed_forward_out.bias"

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
"""`PackedVectors` of forward.cuh. The edges' bias is added to the nodes', which acts on the same pairs; the output bias
of the edges' feed-forward lies in its matrix."""

BACKWARD_VECTORS = (
    "edge_update.norm.weight",
    "edge_update.feed_forward_norm.weight",
    "edge_update.norm.bias",
    "node_norm.weight",
    "node_feed_forward_norm.weight",
)
"""The order of a seed's vectors in backward.cuh."""

SUMS = {
    "own": (MESSAGE_HIDDEN, CHANNELS),
    "reverse": (MESSAGE_HIDDEN, CHANNELS),
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
    "unused": (8,),
}
"""Gradients that backward.cuh adds up over a graph, in the order of its buffer."""
TURNED = ("edge_update.message_out.weight", "edge_update.feed_forward_out.weight")
NUM_SUMS = sum(torch.Size(shape).numel() for shape in SUMS.values())


class LayerWeights(ctypes.Structure):
    """`LayerWeights` of forward.cuh: addresses of [S, packed], matrices in bfloat16, vectors in float32."""

    _fields_ = [("matrices", ctypes.c_void_p), ("vectors", ctypes.c_void_p)]


class SeedStrides(ctypes.Structure):
    """`SeedStrides` of forward.cuh: graphs from one seed to the next in what is read, made and kept."""

    _fields_ = [("read", ctypes.c_int), ("made", ctypes.c_int), ("kept", ctypes.c_int)]


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
def orders_on(device: torch.device) -> Orders:
    """The orders of packed matrices, on a device."""
    numbered = _numbered()
    return Orders(_packed_forward(numbered).to(device), _packed(numbered).to(device))


def pack(parameters: Mapping[str, Tensor], orders: Orders) -> Packed:
    """Lay out the weights of a layer for both kernels."""
    return Packed(*pack_forward(parameters, orders), *pack_backward(parameters, orders))


def pack_forward(parameters: Mapping[str, Tensor], orders: Orders) -> tuple[Tensor, Tensor]:
    """What forward.cuh reads."""
    bias = parameters[FEED_FORWARD_BIAS].float()
    rounded = bias.bfloat16()  # the bias in two numbers: products with 1
    rest = (bias - rounded.float()).bfloat16()
    flat = [parameters[name].flatten(1) for name in MATRICES] + [rounded, rest, torch.zeros_like(rest[:, :1])]
    matrices = torch.cat(flat, dim=1).index_select(1, orders.forward)
    vectors = {name: parameters[name].float() for name in FORWARD_VECTORS}
    vectors["attention.node_qkv.bias"] = vectors["attention.node_qkv.bias"] + parameters[EDGE_BIAS].float()
    return matrices.contiguous(), torch.cat(list(vectors.values()), dim=1)


def pack_backward(parameters: Mapping[str, Tensor], orders: Orders) -> tuple[Tensor, Tensor]:
    """What backward.cuh reads."""
    flat = torch.cat([parameters[name].flatten(1) for name in MATRICES], dim=1)
    vectors = torch.cat([parameters[name] for name in BACKWARD_VECTORS], dim=1).float()
    return flat.index_select(1, orders.backward).contiguous(), vectors


class Learnt(NamedTuple):
    """The parameters of a layer in the form in which the gradients are made: matrices [S, out, in] whose gradients are
    products of rows, and all others in the order of `SUMS`, [S, sums]."""

    node_qkv: Tensor
    edge_qkv: Tensor
    output: Tensor
    node_in: Tensor
    node_out: Tensor
    ends: Tensor
    sums: Tensor


def as_learnt(parameters: Mapping[str, Tensor]) -> Learnt:
    """Bring parameters [S, *shape] into that form; `gradients_by_name` is the way back for gradients."""
    own, reverse, sender, receiver = parameters["edge_update.message_in.weight"].split(CHANNELS, dim=2)
    named = {**parameters, "own": own, "reverse": reverse}
    for name in TURNED:
        named[name] = named[name].transpose(1, 2)
    named["attention.node_qkv.bias"] = parameters["attention.node_qkv.bias"] + parameters[EDGE_BIAS]
    named["unused"] = torch.zeros_like(parameters["edge_update.feed_forward_in.bias"])
    return Learnt(
        node_qkv=parameters["attention.node_qkv.weight"],
        edge_qkv=parameters["attention.edge_qkv.weight"],
        output=parameters["node_output.weight"],
        node_in=parameters["node_feed_forward_in.weight"],
        node_out=parameters["node_feed_forward_out.weight"],
        ends=torch.cat([sender, receiver], dim=1),
        sums=torch.cat([named[name].flatten(1) for name in SUMS], dim=1),
    )


def gradients_by_name(gradients: Learnt) -> dict[str, Tensor]:
    """The gradient of every parameter, [S, *shape], by name."""
    node_qkv, edge_qkv, output, node_in, node_out, ends, sums = gradients
    pieces = sums.split([torch.Size(shape).numel() for shape in SUMS.values()], dim=1)
    named = {name: piece.unflatten(1, shape) for (name, shape), piece in zip(SUMS.items(), pieces, strict=True)}
    sender, receiver = ends.chunk(2, dim=1)
    named |= {
        "attention.node_qkv.weight": node_qkv,
        "attention.edge_qkv.weight": edge_qkv,
        "attention.edge_qkv.bias": named["attention.node_qkv.bias"],
        "node_output.weight": output,
        "node_feed_forward_in.weight": node_in,
        "node_feed_forward_out.weight": node_out,
        "edge_update.message_in.weight": torch.cat([named["own"], named["reverse"], sender, receiver], dim=2),
    }
    for name in TURNED:
        named[name] = named[name].transpose(1, 2)
    return {name: named[name] for name in NAMES}


def _numbered() -> dict[str, Tensor]:
    shapes = {
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
    assert tuple(shapes) == MATRICES
    sizes = [torch.Size(shape).numel() for shape in shapes.values()]
    numbers = torch.arange(sum(sizes)).split(sizes)
    return {name: block.view(shape) for (name, shape), block in zip(shapes.items(), numbers, strict=True)}


def _packed_forward(matrices: Mapping[str, Tensor]) -> Tensor:
    """`PackedMatrices` of forward.cuh, of matrices, the feed-forward's bias, what rounding left of it, and a zero."""
    own, reverse, sender, receiver = matrices["edge_update.message_in.weight"].split(CHANNELS, dim=1)
    query, key, value = matrices["attention.edge_qkv.weight"].split(CHANNELS)
    by_head = torch.stack([query.unflatten(0, (HEADS, -1)), key.unflatten(0, (HEADS, -1))], dim=1)
    feed_out = matrices["edge_update.feed_forward_out.weight"]
    bias = int(feed_out.max()) + 1 + torch.arange(2 * CHANNELS).view(2, -1).T
    zeros = bias.max() + 1 + torch.zeros(CHANNELS, 6, dtype=torch.long)
    return torch.cat(
        [
            _tiles(matrices["attention.node_qkv.weight"]),
            _lefts(by_head.flatten(0, 2)),
            _lefts(value),
            _tiles(matrices["node_output.weight"]),
            _tiles(matrices["node_feed_forward_in.weight"]),
            _tiles(matrices["node_feed_forward_out.weight"]),
            _lefts(torch.cat([own, reverse])),
            _tiles(torch.cat([sender, receiver])),
            _tiles(matrices["edge_update.feed_forward_in.weight"], permuted=True),
            _pairs(matrices["edge_update.message_out.weight"]),
            _pairs(torch.cat([feed_out, bias, zeros], dim=1)),
        ]
    )


def _tiles(matrix: Tensor, permuted: bool = False) -> Tensor:
    """[out, in] -> [out / 8][in / 32][lane = 4 r + q][8]: row r, and of the block's 32 columns the lane's four pairs.

    Natural: columns 32 b + 8 k + 2 q + p. Permuted: 32 b + 8 q + 2 k + p, for k = 0 to 3.
    """
    rows = matrix.shape[0] // 8
    if permuted:
        return matrix.reshape(rows, 8, -1, 4, 8).transpose(1, 2).reshape(-1)
    return matrix.reshape(rows, 8, -1, 4, 4, 2).permute(0, 2, 1, 4, 3, 5).reshape(-1)


def _lefts(matrix: Tensor) -> Tensor:
    """[out, in] -> [out / 16][in / 32][step][lane = 4 r + q][8]: a left operand, rows r and r + 8, columns
    32 b + 8 q + 4 step + 2 pair + p in the order pair, row, p."""
    return matrix.reshape(-1, 2, 8, matrix.shape[1] // 32, 4, 2, 2, 2).permute(0, 3, 5, 2, 4, 6, 1, 7).reshape(-1)


def _pairs(matrix: Tensor) -> Tensor:
    """[192, 16] -> [12][lane = 4 r + q][8]: fragments of two tiles of the edge update's permuted outputs: of tile
    4 b + t, row r is channel 32 b + 8 (r / 2) + 2 t + r % 2."""
    return matrix.reshape(6, 4, 2, 2, 2, 2, 4, 2).permute(0, 2, 1, 4, 6, 3, 5, 7).reshape(-1)


def _packed(matrices: Mapping[str, Tensor]) -> Tensor:
    own, reverse, sender, receiver = matrices["edge_update.message_in.weight"].split(CHANNELS, dim=1)
    message_out = matrices["edge_update.message_out.weight"]
    feed_in = matrices["edge_update.feed_forward_in.weight"]
    feed_out = matrices["edge_update.feed_forward_out.weight"]
    node_in = matrices["node_feed_forward_in.weight"]
    node_out = matrices["node_feed_forward_out.weight"]
    output, node_qkv = matrices["node_output.weight"], matrices["attention.node_qkv.weight"]
    query_key, value = matrices["attention.edge_qkv.weight"].split([2 * CHANNELS, CHANNELS])
    ends = torch.cat([sender, receiver])
    return torch.cat(
        [
            feed_in.reshape(-1),
            _fragments(feed_out.T, permuted=True),
            _eights(feed_in.T).reshape(-1, 4, 32, 2).transpose(1, 2).reshape(-1),
            _fragments(message_out.T, permuted=True),
            _fragments(ends.T),
            _fragments(node_out.T),
            _fragments(node_in.T),
            _fragments(output.T),
            _fragments(node_qkv.T, permuted=True),
            _fragments(_neighbours(query_key)),
            _left_fragments(_eights(value.T)).transpose(0, 1).reshape(-1),
            _fragments(_by_warps(torch.cat([query_key.T, own.T, reverse.T], dim=1))),
        ]
    )


def _fragments(matrix: Tensor, permuted: bool = False) -> Tensor:
    """[out, in] -> [out / 8][in / 32][lane = 4 r + q][2][4]: row r, and of two steps of 16 columns the lane's pairs.

    Natural: columns 16 s + 8 half + 2 q + p. Permuted: 32 b + 8 q + 4 (s % 2) + 2 half + p, for s = 2 b and 2 b + 1.
    """
    rows, steps = matrix.shape[0] // 8, min(2, matrix.shape[1] // 16)
    if permuted:  # [tile, r, block, q, step, half, p]
        return matrix.reshape(rows, 8, -1, 4, 2, 2, 2).transpose(1, 2).reshape(-1)
    # [tile, r, block, step, half, q, p]
    return matrix.reshape(rows, 8, -1, steps, 2, 4, 2).permute(0, 2, 1, 5, 3, 4, 6).reshape(-1)


def _left_fragments(matrix: Tensor) -> Tensor:
    """[out, in] -> [out / 16, in / 16, 256]: left operands, a lane's four pairs of 16 x 16 together.

    A lane's columns are neighbours, four of each 16. Rows of every 16: `_neighbours`.
    """
    # [tile, lower, r, block, q, half, p] -> [tile, block, r, q, half, lower, p]
    split = _neighbours(matrix).reshape(matrix.shape[0] // 16, 2, 8, -1, 4, 2, 2)
    return split.permute(0, 3, 2, 4, 5, 1, 6).flatten(2)


def _by_warps(matrix: Tensor) -> Tensor:
    """Rows of every 24, which are one warp's: the first 16 as `_neighbours` orders them, then the others."""
    first, last = matrix.unflatten(0, (-1, 24)).split([16, 8], dim=1)
    return torch.cat([_neighbours(first.flatten(0, 1)).unflatten(0, (-1, 16)), last], dim=1).flatten(0, 1)


def _eights(matrix: Tensor) -> Tensor:
    """Rows of every 32 in the order that gives a lane of four accumulators eight neighbours: row 8 t + 2 q + p is
    channel 8 q + 2 t + p."""
    return matrix.reshape(-1, 4, 4, 2, matrix.shape[1]).transpose(1, 2).reshape(matrix.shape)


def _neighbours(matrix: Tensor) -> Tensor:
    """Rows of every 16 in the order that gives a lane of an accumulator four neighbours: row 8 t + 2 q + p is channel
    4 q + 2 t + p."""
    return matrix.reshape(-1, 4, 2, 2, matrix.shape[1]).transpose(1, 2).reshape(matrix.shape)
