"""Decoders: logits of hints and outputs from node, edge and global vectors, by as few matrix products as possible."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from relational_transformer.clrs.spec import Location, Type
from relational_transformer.nn import ConcatLinear, kernels
from relational_transformer.nn.alignment import ALIGNED
from relational_transformer.nn.concat_linear import sum_of_products
from relational_transformer.processors.largest import largest

from .encoders import EdgePointers, by_graph
from .features import FeatureGroup, Packed

ABSENT = -1e9
"""The logit of an absent node."""

LARGE = 2**26
"""The number of elements above which pointers are scored row by row."""

FEW = 4
"""The number of channels up to which a compiled readout is a sum of products."""

MANY = 64
"""The number of channels from which unaligned ones are computed separately."""

QUERY_SIZE = 16
"""The size of the vectors by which edges choose the nodes that they point to, where these are bound."""

Parts = tuple[Tensor, ...]
"""Vectors given as parts of a concatenation."""


class DecoderLinear(NamedTuple):
    """The place of Linear `number` of a feature: rows of the weight and bias of the readout `source`."""

    feature: str
    number: int
    source: str
    rows: slice


def linears_of(group: FeatureGroup, size: int, pointers_from_edges: bool, bound: bool) -> list[tuple[str, int]]:
    """The Linears that decode a feature of this group: what each reads, and its number of channels.

    `nodes`, `edges` and `globals` read those vectors, `pooled` the maximum over nodes, `score` the size-long vectors
    that the other Linears of a pointer make.
    """
    width = group.classes or 1
    match group.location, group.type:
        case Location.NODE, (Type.POINTER | Type.PERMUTATION_POINTER) if pointers_from_edges:
            return [("edges", 1)]
        case Location.NODE, (Type.POINTER | Type.PERMUTATION_POINTER):
            return [("nodes", size), ("nodes", size), ("edges", size), ("score", 1)]
        case Location.NODE, _:
            return [("nodes", width)]
        case Location.EDGE, Type.POINTER if bound:
            # Of a query its first node, its second node and its edge; then what it is compared with.
            return [(source, QUERY_SIZE) for source in ("nodes", "nodes", "edges", "nodes", "edges", "edges")]
        case Location.EDGE, Type.POINTER:
            return [("nodes", size), ("nodes", size), ("edges", size), ("nodes", size), ("score", 1)]
        case Location.EDGE, _:
            return [("nodes", width), ("nodes", width), ("edges", width)]
        case _:
            return [("pooled", width), ("globals", width)]


class Decoders(nn.Module):
    """All decoders of an algorithm. The Linears that read the same vectors are stacked into one, a *readout*.

    Args:
        hints: groups of the hints to predict; none where hints are not used.
        outputs: groups of the outputs.
        size: the size of a vector. Nodes have three parts (encoded, last and new hidden), edges and globals
        `edge_parts` and `global_parts`: three, one if the processor has none, two with messages to edges.
        pointers_from_edges: node pointers are one Linear on edge vectors; otherwise decoded as in CLRS-30.
        edge_pointers: how pointers of edges are scored, see `EdgePointers`.
        masked: node pointers and edge masks only along the adjacency (PGN-m).
    """

    def __init__(
        self,
        hints: Sequence[FeatureGroup],
        outputs: Sequence[FeatureGroup],
        size: int,
        *,
        edge_parts: int,
        global_parts: int,
        pointers_from_edges: bool,
        edge_pointers: EdgePointers = "averaged",
        masked: bool = False,
    ) -> None:
        super().__init__()
        self.hints = tuple(hints)
        self.outputs = tuple(outputs)
        self.groups = _union(hints, outputs)
        self.size = size
        self.pointers_from_edges = pointers_from_edges
        self.bound = edge_pointers == "bound"
        self.masked = masked
        self.linears: list[DecoderLinear] = []
        parts = {"nodes": 3, "edges": edge_parts, "pooled": 3, "globals": global_parts, "score": 1}
        ends: dict[str, int] = dict.fromkeys(parts, 0)
        for group in self.groups:
            for number, (source, width) in enumerate(linears_of(group, size, pointers_from_edges, self.bound)):
                for name in group.names:
                    rows = slice(ends[source], ends[source] + width)
                    self.linears.append(DecoderLinear(name, number, source, rows))
                    ends[source] = rows.stop
        self.readouts = nn.ModuleDict(
            {source: ConcatLinear(parts[source] * size, end) for source, end in ends.items() if end}
        )

    def forward(
        self, nodes: Parts, edges: Parts, globals: Parts, adjacency: Tensor | None, node_mask: Tensor | None = None
    ) -> tuple[Packed, Packed]:
        """Packed logits of hints and of outputs, in float32 or better."""
        sources = {"nodes": nodes, "edges": edges, "globals": globals}
        if "pooled" in self.readouts:
            sources["pooled"] = tuple(pool(part, node_mask) for part in nodes)
        readings = {
            source: read_out(parts, *self._parameters_of(source))
            for source, parts in sources.items()
            if source in self.readouts
        }
        score = self._parameters_of("score") if "score" in self.readouts else None
        return self.from_readings(readings, score, adjacency, node_mask)

    def _parameters_of(self, source: str) -> tuple[Tensor, Tensor]:
        readout = self.readouts[source]
        assert isinstance(readout, ConcatLinear)
        return readout.weight, readout.bias

    def from_readings(
        self,
        readings: dict[str, Tensor],
        score: tuple[Tensor, Tensor] | None,
        adjacency: Tensor | None = None,
        node_mask: Tensor | None = None,
    ) -> tuple[Packed, Packed]:
        """Packed logits from the results of the readouts, [..., channels] by source, and the weight and bias of
        `score`."""
        read = _Reader(readings, score, self.size)
        hints: Packed = {}
        outputs: Packed = {}
        num_hints = {group.key: len(group.names) for group in self.hints}
        output_keys = {group.key for group in self.outputs}
        for group in self.groups:
            logits = self._decode(group, read)
            if self.masked and adjacency is not None and group.is_relation:
                logits = mask_outside(logits, adjacency, node_mask)
            if node_mask is not None and group.is_choice_of_nodes:
                logits = logits.masked_fill(~_at_choices(node_mask, logits), ABSENT)
            split = num_hints.get(group.key, 0)
            if split:  # contiguous, so that all steps have the same layout
                hints[group.key] = logits[..., :split].contiguous()
            if group.key in output_keys:
                outputs[group.key] = logits[..., split:].contiguous()
        return hints, outputs

    def _decode(self, group: FeatureGroup, read: "_Reader") -> Tensor:
        """Logits of one group, in the shape that `FeatureGroup` says."""
        count, width = len(group.names), group.classes or 1
        if group.is_pointer:
            if group.location == Location.NODE and self.pointers_from_edges:
                return read("edges", count, 1).squeeze(-1)
            if group.is_edge_pointer and self.bound:
                return self._decode_bound(group, read)
            first, second = read("nodes", count, self.size), read("nodes", count, self.size)  # [B, N, F, size]
            between = read("edges", count, self.size)  # [B, N, N, F, size]
            if group.location == Location.NODE:
                # p1 at i, against p2 at j plus the edge from j to i
                target = (second.unsqueeze(-3) + between).transpose(-3, -4)
                return read.score(first.unsqueeze(-3), target)  # [B, i, j, F]
            origin = first.unsqueeze(-3) + second.unsqueeze(-4) + between  # [B, i, j, F, size]
            pointed = read("nodes", count, self.size)
            return read.score_all(origin, pointed)  # [B, i, j, k, F]
        if group.location == Location.NODE:
            logits = read("nodes", count, width)
        elif group.location == Location.EDGE:
            first, second = read("nodes", count, width), read("nodes", count, width)
            logits = first.unsqueeze(-3) + second.unsqueeze(-4) + read("edges", count, width)
        else:
            logits = read("pooled", count, width) + read("globals", count, width)
        return logits.transpose(-1, -2) if group.classes else logits.squeeze(-1)

    def _decode_bound(self, group: FeatureGroup, read: "_Reader") -> Tensor:
        """Logits of pointers that are bound to their edges, [B, i, j, k, F]."""
        linears = linears_of(group, self.size, self.pointers_from_edges, self.bound)
        first, second, between, *compared = (read(source, len(group.names), width) for source, width in linears)
        query = first.unsqueeze(-3) + second.unsqueeze(-4) + between  # [B, i, j, F, QUERY_SIZE]
        return bound_scores(query, *compared)


class _Reader:
    """Returns the channels of the readouts in order, in blocks [..., count, width]."""

    def __init__(self, readings: dict[str, Tensor], score: tuple[Tensor, Tensor] | None, size: int) -> None:
        self.readings = readings
        self.score_parameters = score
        self.size = size
        self.ends = dict.fromkeys((*readings, "score"), 0)

    def __call__(self, source: str, count: int, width: int) -> Tensor:
        start = self.ends[source]
        self.ends[source] = start + count * width
        block = self.readings[source][..., start : start + count * width].unflatten(-1, (count, width))
        # Logits are summed in float32 or better. Vectors for scores of pointers keep their dtype.
        return block if width == self.size else block.to(precise(block))

    def score(self, left: Tensor, right: Tensor) -> Tensor:
        """w · max(left, right) + b for each pointer: [B, i, ..., F, size] -> [B, i, ..., F].

        If this takes much memory it is computed row by row, unless gradients need all rows anyway.
        """
        weight, bias = self._score_parameters(left.shape[-2])
        shape = torch.broadcast_shapes(left.shape, right.shape)
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or math.prod(shape) <= LARGE:
            return _score(left, right, weight, bias)
        rows = zip(left.unbind(1), right.expand(shape[0], shape[1], *right.shape[2:]).unbind(1), strict=True)
        return torch.stack([_score(*row, weight, bias) for row in rows], dim=1)

    def score_all(self, origin: Tensor, pointed: Tensor) -> Tensor:
        """`score` for every edge and every node: [B, i, j, F, size], [B, k, F, size] -> [B, i, j, k, F]."""
        if not kernels.scores_pointers(origin, pointed.shape[1]):
            return self.score(origin.unsqueeze(-3), pointed[:, None, None])
        weight, bias = self._score_parameters(origin.shape[-2])
        scores = kernels.pointer_scores(origin.flatten(1, 2), pointed, weight)
        return scores.unflatten(1, origin.shape[1:3]) + bias.to(scores.dtype)

    def _score_parameters(self, count: int) -> tuple[Tensor, Tensor]:
        assert self.score_parameters is not None
        weight, bias = self.score_parameters
        start = self.ends["score"]
        self.ends["score"] = start + count
        return weight[start : start + count], bias[start : start + count]


def read_out(parts: Parts, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The Linear of a readout. Compiled code uses the fastest form on a GPU:

    - A few channels are computed as sums of products, in one pass over all parts: matrix products would be mostly
      padding.
    - So are the channels beyond a multiple of `ALIGNED`, if there are many: they would slow down all others.
    - Channels of nodes are computed by one product of the concatenated parts, which are small.
    """
    if not torch.compiler.is_compiling():
        if len(parts) == 1 and len(weight) <= 2 * FEW:
            products = by_graph(parts[0].to(weight.dtype), weight.T)
            return products if bias is None else products + bias
        return _products(parts, weight, bias)
    if len(weight) <= FEW:
        return _sums(parts, weight, bias)
    whole = (torch.cat(parts, dim=-1),) if len(parts) > 1 and parts[0].dim() == 3 else parts
    aligned = len(weight) // ALIGNED * ALIGNED
    if len(weight) < MANY or aligned == len(weight):
        return _products(whole, weight, bias)
    products = _products(whole, weight[:aligned], None if bias is None else bias[:aligned])
    rest = _sums(parts, weight[aligned:], None if bias is None else bias[aligned:])
    return torch.cat([products, rest.to(products.dtype)], dim=-1)


def _products(parts: Parts, weight: Tensor, bias: Tensor | None) -> Tensor:
    return sum_of_products([part.to(weight.dtype) for part in parts], weight, bias)


def _sums(parts: Parts, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`read_out` channel by channel, summed in float32 or better."""
    weights = weight.to(precise(weight)).split([part.shape[-1] for part in parts], dim=1)
    channels = []
    for channel in range(len(weight)):
        products = [part * weight[channel] for part, weight in zip(parts, weights, strict=True)]
        channels.append(sum(products[1:], products[0]).sum(-1))
    logits = torch.stack(channels, dim=-1)
    return logits if bias is None else logits + bias.to(logits.dtype)


def _score(left: Tensor, right: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    # Product and sum instead of a matrix product: compiled, the maxima are never written to memory.
    dtype = precise(weight)
    return (torch.maximum(left, right) * weight.to(dtype)).sum(-1) + bias.to(dtype)


def bound_scores(query: Tensor, nodes: Tensor, to_target: Tensor, from_target: Tensor) -> Tensor:
    r"""$\langle q_{ij},\; a_k + b_{ik} + c_{kj} \rangle / \sqrt{R}$ for every edge and every node.

    Shapes: query q [B, i, j, F, R], nodes a [B, k, F, R], to_target b [B, i, k, F, R], from_target c [B, k, j, F, R] ->
    [B, i, j, k, F].
    """
    query, from_target = query.movedim(-2, 1), from_target.movedim(-2, 1)  # [B, F, i, j, R], [B, F, k, j, R]
    to_target = (nodes.unsqueeze(-4) + to_target).movedim(-2, 1)  # [B, F, i, k, R]
    scores = query @ to_target.transpose(-1, -2)  # [B, F, i, j, k]
    others = query.transpose(-2, -3) @ from_target.movedim(-3, -1)  # [B, F, j, i, R] @ [B, F, j, R, k]
    return (scores + others.transpose(-2, -3)).movedim(1, -1) * query.shape[-1] ** -0.5


def precise(tensor: Tensor) -> torch.dtype:
    """The dtype in which logits of such vectors are summed: float32 or better."""
    return torch.promote_types(tensor.dtype, torch.float32)


def mask_outside(logits: Tensor, adjacency: Tensor, node_mask: Tensor | None) -> Tensor:
    """Logits [B, N, N, F] outside the adjacency become min(-1, m - 1), m the smallest one of the example."""
    present = logits
    if node_mask is not None:
        pairs = node_mask.unsqueeze(-1) & node_mask.unsqueeze(-2)
        present = logits.masked_fill(~pairs.unsqueeze(-1), torch.inf)
    smallest = -largest(-present.flatten(-3, -2), -2).unsqueeze(-2).unsqueeze(-2)  # [B, 1, 1, F]
    floor = (smallest - 1).clamp(max=-1.0)
    return torch.where(adjacency.unsqueeze(-1), logits, floor)


def pool(nodes: Tensor, node_mask: Tensor | None = None) -> Tensor:
    """The maximum over present nodes, [B, N, size] -> [B, size]."""
    if node_mask is not None:
        nodes = nodes.masked_fill(~node_mask.unsqueeze(-1), torch.finfo(nodes.dtype).min)
    return largest(nodes, -2)


def _at_choices(node_mask: Tensor, logits: Tensor) -> Tensor:
    """The node mask [B, N] at axis -2 of logits [B, ..., N, F]."""
    between = (None,) * (logits.dim() - 3)
    return node_mask[:, *between, :, None]


def _union(hints: Sequence[FeatureGroup], outputs: Sequence[FeatureGroup]) -> tuple[FeatureGroup, ...]:
    """The groups of hints and outputs, united by location and type, hints first."""
    merged = {group.key: group for group in hints}
    for group in outputs:
        known = merged.get(group.key)
        merged[group.key] = replace(known, names=known.names + group.names) if known else group
    return tuple(merged.values())
