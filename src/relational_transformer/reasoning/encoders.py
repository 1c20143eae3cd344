"""Encoders: one Linear for each feature, all features of a location in one product."""

from collections.abc import Container, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from relational_transformer.clrs.spec import Location, Type
from relational_transformer.nn.initialization import reset_linear, truncated_normal_
from relational_transformer.processors import GraphState

from .features import FeatureGroup, Packed

EdgePointers = Literal["averaged", "bound"]
"""How pointers of edges are encoded and decoded. `averaged`: as in CLRS-30; `bound`: by `BoundPointers` besides, and by
`bound_scores` (`decoders.py`)."""

FEW = 16
"""The number of columns from which a matrix product is used. A sum over fewer compiles to one pass."""


class EncodedFeatures(NamedTuple):
    """The encodings of features in node [B, N, size], edge [B, N, N, size] and global vectors [B, size], and the
    adjacency that they define, bool [B, N, N]; None where there is none."""

    nodes: Tensor | None
    edges: Tensor | None
    globals: Tensor | None
    adjacency: Tensor | None


class EncoderLinear(NamedTuple):
    """The place of a feature's Linear in a `ColumnEncoder`: rows of its weight and of its bias. An edge pointer has two
    Linears, 0 and 1; other features have one, 0."""

    feature: str
    number: int
    rows: slice
    bias_rows: slice


class ColumnEncoder(nn.Module):
    r"""The sum of a Linear for each feature, $\sum_f (W_f x_f + b_f)$, as one product.

    Biases stay separate, because each is learnt on its own. Shapes: blocks of columns, K together, [..., K'] -> [...,
    size].
    """

    def __init__(self, features: Sequence[tuple[str, int, int]], size: int, small: Container[str] = ()) -> None:
        """`features`: name, number of the Linear and its columns, in the order of the columns. The weights of `small`
        features are initialised as if they had `size` columns."""
        super().__init__()
        self.small = small
        self.linears: list[EncoderLinear] = []
        start = 0
        for index, (name, number, width) in enumerate(features):
            rows, bias_rows = slice(start, start + width), slice(index, index + 1)
            self.linears.append(EncoderLinear(name, number, rows, bias_rows))
            start += width
        self.weight = nn.Parameter(torch.empty(start, size))
        self.bias = nn.Parameter(torch.empty(len(self.linears), size))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        for linear in self.linears:
            width = linear.rows.stop - linear.rows.start
            truncated_normal_(self.weight[linear.rows], self.weight.shape[1] if linear.feature in self.small else width)
        self.bias.zero_()

    def forward(self, blocks: Sequence[Tensor]) -> Tensor:
        # Columns are never in half precision, in which different keys may be equal.
        dtype = blocks[0].dtype
        with torch.autocast(blocks[0].device.type, enabled=False):
            encoded = mix(blocks, self.weight.to(dtype)) + self.bias.to(dtype).sum(0)
        return encoded.to(self.weight.dtype)

    def extra_repr(self) -> str:
        names = dict.fromkeys(linear.feature for linear in self.linears)
        return f"{', '.join(names)} -> {self.weight.shape[1]}"


def mix(blocks: Sequence[Tensor], rows: Tensor) -> Tensor:
    r"""$\sum_k x_k w_k$: blocks of columns, K together, [..., K'], rows [K, size] -> [..., size]."""
    if not torch.compiler.is_compiling() or len(rows) > FEW:
        return by_graph(joined(blocks), rows)
    columns = [column for block in blocks for column in block.unbind(-1)]
    products = [column.unsqueeze(-1) * row for column, row in zip(columns, rows.unbind(0), strict=True)]
    return sum(products[1:], products[0])


def joined(blocks: Sequence[Tensor]) -> Tensor:
    """All columns of the blocks."""
    return blocks[0] if len(blocks) == 1 else torch.cat([*blocks], dim=-1)


def by_graph(vectors: Tensor, matrix: Tensor) -> Tensor:
    """[B, ..., K] @ [K, C]. The product is one of each graph where the vectors are those of edges: its gradient by a
    matrix with few columns or rows is then summed over the graphs, and not by the few blocks of threads that such a
    matrix has."""
    if vectors.dim() < EDGE_AXES:
        return vectors @ matrix
    rows = vectors.flatten(1, -2)
    return (rows @ matrix.expand(len(rows), *matrix.shape)).unflatten(1, vectors.shape[1:-1])


EDGE_AXES = 4
"""The axes of vectors of edges, [B, N, N, size]."""

Blocks = tuple[Tensor, ...]
"""The columns of each group of features, [..., K]. They stay separate because few have gradients: decisions have
none."""


class Columns(NamedTuple):
    """Features as numbers, of nodes [B, N, K], edges [B, N, N, K] and graphs [B, K]; None where there are none."""

    nodes: Blocks | None
    edges: Blocks | None
    globals: Blocks | None


class Encoder(nn.Module):
    """Encodes the inputs, or the hints of a step.

    Node pointers become edge features, as one-hot [B, i, j]. Edge pointers, one-hot [B, i, j, k], become two: their
    mean over i, an edge [j, k], and their mean over j, an edge [i, k]. All other features stay where they are.
    Node pointers and edge masks also define a symmetric adjacency. Pointers may be given as probabilities, in the form
    of logits; nodes are adjacent where the sum of both directions is above a half.

    With `small_scalars` the weights of scalars are initialised as if there were `size` of them. Otherwise predicted
    scalars grow from step to step.
    """

    def __init__(self, groups: Sequence[FeatureGroup], size: int, *, small_scalars: bool = False) -> None:
        super().__init__()
        self.node_groups = [group for group in groups if group.location == Location.NODE and not group.is_pointer]
        self.global_groups = [group for group in groups if group.location == Location.GRAPH]
        edge_groups = [group for group in groups if group.location == Location.EDGE or group.is_pointer]
        # Relations first: the adjacency is computed from the first blocks of columns.
        self.edge_groups = sorted(edge_groups, key=lambda group: not group.is_relation)
        self.relations = [group for group in self.edge_groups if group.is_relation]
        self.nodes = _column_encoder(self.node_groups, size, small_scalars)
        self.edges = _column_encoder(self.edge_groups, size, small_scalars)
        self.globals = _column_encoder(self.global_groups, size, small_scalars)

    def forward(
        self, features: Packed, num_nodes: int, node_mask: Tensor | None = None, need_adjacency: bool = False
    ) -> EncodedFeatures:
        columns = self.columns(features, num_nodes, node_mask)
        adjacency = None
        if need_adjacency and self.relations and columns.edges is not None:
            both_ways = [block + block.transpose(-2, -3) for block in columns.edges[: len(self.relations)]]
            least = [0.5 if group.is_pointer else 0.0 for group in self.relations]
            related = [block > number for block, number in zip(both_ways, least, strict=True)]
            adjacency = torch.cat(related, dim=-1).any(-1)
        return EncodedFeatures(
            _encode(self.nodes, columns.nodes),
            _encode(self.edges, columns.edges),
            _encode(self.globals, columns.globals),
            adjacency,
        )

    def columns(self, features: Packed, num_nodes: int, node_mask: Tensor | None = None) -> Columns:
        """The inputs of the Linears, in float32 or better."""

        seen = features, num_nodes, node_mask
        return Columns(
            _blocks(self.node_groups, self.nodes, *seen),
            _blocks(self.edge_groups, self.edges, *seen),
            _blocks(self.global_groups, self.globals, *seen),
        )


class BoundPointers(nn.Module):
    r"""Tells every edge what the node that it points to is, and how that node is related to its ends.

    $$e'_{ij} = e_{ij} + \sum_f \sum_k O^f_{ijk}\,(A_f x_k + B_f e_{ik} + C_f e_{kj})$$

    x and e are the encoded features of a step, and f its pointers of edges, as indices or as probabilities. `Encoder`
    alone averages over either end of an edge, and so loses that (i, j) points to k. Takes N³ products for each channel.

    Shapes: nodes x [B, N, size], edges e [B, N, N, size], pointers [B, i, j, F] or [B, i, j, k, F]. Returns the
    features with edges e'.
    """

    def __init__(self, key: str, num_pointers: int, size: int) -> None:
        super().__init__()
        self.key = key
        self.from_nodes = nn.Linear(size, num_pointers * size, bias=False)
        self.from_edges = nn.Linear(size, 2 * num_pointers * size, bias=False)  # of all (i, k), then of all (k, j)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in (self.from_nodes, self.from_edges):
            reset_linear(linear)

    def forward(self, features: GraphState, hints: Packed) -> GraphState:
        nodes, edges, pointers = features.nodes, features.edges, hints[self.key]
        assert edges is not None
        if pointers.dim() == edges.dim():
            pointers = one_hot(pointers, nodes.shape[-2])
        pointers = pointers.to(edges.dtype).movedim(-1, 1)  # [B, F, i, j, k]
        count = pointers.shape[1]
        of_nodes = self.from_nodes(nodes).unflatten(-1, (count, -1)).transpose(-2, -3)  # [B, F, k, size]
        of_edges = self.from_edges(edges).unflatten(-1, (2, count, -1)).movedim(-2, 1)  # [B, F, N, N, 2, size]
        to_target, from_target = of_edges.unbind(-2)  # of (i, k), of (k, j)
        told = pointers @ (of_nodes.unsqueeze(-3) + to_target)  # [B, F, i, j, size]
        told = told + (pointers.transpose(-2, -3) @ from_target.transpose(-2, -3)).transpose(-2, -3)
        return features._replace(edges=edges + told.sum(1))


def bound_pointers(groups: Sequence[FeatureGroup], size: int) -> BoundPointers | None:
    """What tells edges of their targets, given the features of a step; None where no edge points to any."""
    pointers = [group for group in groups if group.is_edge_pointer]
    return BoundPointers(pointers[0].key, len(pointers[0].names), size) if pointers else None


def _blocks(
    groups: Sequence[FeatureGroup],
    encoder: ColumnEncoder | None,
    features: Packed,
    num_nodes: int,
    node_mask: Tensor | None,
) -> Blocks | None:
    """The columns of an encoder's groups; None where there is no encoder."""
    if encoder is None:
        return None
    dtype = torch.promote_types(encoder.weight.dtype, torch.float32)
    return tuple(_columns(group, features[group.key], num_nodes, node_mask, dtype) for group in groups)


def _encode(encoder: ColumnEncoder | None, blocks: Blocks | None) -> Tensor | None:
    return None if encoder is None or blocks is None else encoder(blocks)


def one_hot(index: Tensor, num_classes: int) -> Tensor:
    """Bool [..., num_classes, F] of indices [..., F], in operations that vmap and compile. No class where none fits."""
    classes = torch.arange(num_classes, device=index.device).unsqueeze(-1)
    return index.unsqueeze(-2) == classes


def _column_encoder(groups: Sequence[FeatureGroup], size: int, small_scalars: bool) -> ColumnEncoder | None:
    features: list[tuple[str, int, int]] = []
    for group in groups:
        numbers = (0, 1) if group.location == Location.EDGE and group.is_pointer else (0,)
        features += [(name, number, group.classes or 1) for number in numbers for name in group.names]
    small = {name for group in groups if small_scalars and group.type == Type.SCALAR for name in group.names}
    return ColumnEncoder(features, size, small) if features else None


def _columns(group: FeatureGroup, data: Tensor, num_nodes: int, node_mask: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The features of a group side by side as numbers, [..., K]; -1 (masked) stays -1."""
    if group.is_pointer:
        is_index = data.dim() == 2 + group.node_axes  # [B, i, F] -> [B, i, j, F]
        pointers = (one_hot(data, num_nodes) if is_index else data).to(dtype)
        return pointers if group.location == Location.NODE else _edge_pointer_columns(pointers, node_mask)
    if group.classes:
        data = data.transpose(-1, -2).flatten(-2)  # [..., classes, F] -> [..., F·classes]
    return data.to(dtype)


def _edge_pointer_columns(pointers: Tensor, node_mask: Tensor | None) -> Tensor:
    """Means of one-hot [B, i, j, k, F] over the present nodes i and over the present nodes j, [B, N, N, 2·F]."""
    if node_mask is None:
        return torch.cat([pointers.mean(-4), pointers.mean(-3)], dim=-1)
    present = node_mask.to(pointers.dtype)
    count = present.sum(-1)[:, None, None, None]
    over_first = (pointers * present[:, :, None, None, None]).sum(-4) / count
    over_second = (pointers * present[:, None, :, None, None]).sum(-3) / count
    return torch.cat([over_first, over_second], dim=-1)
