r"""Pointers of edges that stay bound to their edges: what the edge (i, j) is told of the node k that it points to.

The published encoding adds $O_{ijk}$ to the edges (j, k) and (i, k) as means over i and over j, in which (i, j) -> k is
lost. Both functions here take memory and time of N³ for each feature, as the logits themselves do.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from relational_transformer.nn.initialization import reset_linear
from relational_transformer.processors import GraphState

from .encoders import one_hot
from .features import FeatureGroup, Packed

EdgePointers = Literal["averaged", "bound"]
"""How pointers of edges are encoded and decoded: as published, or bound to their edges."""

FEATURES = 16
"""The size of the vectors by which an edge chooses the node that it points to."""


class BoundPointers(nn.Module):
    r"""Tells every edge what the nodes that it points to are, and how they relate to its ends.

    $$e'_{ij} = e_{ij} + \sum_f \sum_k O^f_{ijk}\,(A_f x_k + B_f e_{ik} + C_f e_{kj})$$

    Shapes: nodes x [B, N, size], edges e [B, N, N, size], packed pointers as indices [B, i, j, F] or as probabilities
    [B, i, j, k, F] -> [B, N, N, size].
    """

    def __init__(self, num_features: int, size: int) -> None:
        super().__init__()
        self.from_nodes = nn.Linear(size, num_features * size, bias=False)
        self.from_edges = nn.Linear(size, 2 * num_features * size, bias=False)  # of (i, k) and of (k, j), stacked
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in (self.from_nodes, self.from_edges):
            reset_linear(linear)

    def forward(self, nodes: Tensor, edges: Tensor, pointers: Tensor) -> Tensor:
        size, num_nodes = nodes.shape[-1], nodes.shape[-2]
        if pointers.dim() < edges.dim() + 1:
            pointers = one_hot(pointers, num_nodes)
        chosen = pointers.to(edges.dtype).unbind(-1)  # [B, i, j, k] of each feature
        of_nodes = self.from_nodes(nodes).split(size, dim=-1)
        of_edges = self.from_edges(edges).split(size, dim=-1)
        told = edges
        for number, pointer in enumerate(chosen):
            to_target, from_target = of_edges[2 * number : 2 * number + 2]  # of (i, k) and of (k, j)
            told = told + pointer @ (of_nodes[number].unsqueeze(-3) + to_target)
            told = told + (pointer.transpose(-2, -3) @ from_target.transpose(-2, -3)).transpose(-2, -3)
        return told


def bound_pointers(groups: Sequence[FeatureGroup], size: int) -> BoundPointers | None:
    """What encodes the pointers of edges among these features; None where there are none."""
    counts = [len(group.names) for group in groups if group.is_edge_pointer]
    return BoundPointers(counts[0], size) if counts else None


def bind(bound: BoundPointers, features: GraphState, hints: Packed) -> GraphState:
    """Encoded features with edges that are told what they point to."""
    (pointers,) = (hint for key, hint in hints.items() if key == "edge_pointer")
    assert features.edges is not None
    return features._replace(edges=bound(features.nodes, features.edges, pointers))


def bound_scores(query: Tensor, nodes: Tensor, to_target: Tensor, from_target: Tensor) -> Tensor:
    r"""$\langle q_{ij}, a_k + b_{ik} + c_{kj} \rangle / \sqrt{R}$ for every edge and node.

    Shapes: query [B, i, j, F, R], nodes [B, k, F, R], to_target [B, i, k, F, R], from_target [B, k, j, F, R] -> [B, i,
    j, k, F].
    """
    query = query.movedim(-2, 1)  # [B, F, i, j, R]
    to_target = (nodes.unsqueeze(-4) + to_target).movedim(-2, 1)  # [B, F, i, k, R]
    from_target = from_target.movedim(-2, 1)  # [B, F, k, j, R]
    scores = query @ to_target.transpose(-1, -2)  # [B, F, i, j, k]
    others = query.transpose(-2, -3) @ from_target.movedim(-3, -1)  # [B, F, j, i, R] x [B, F, j, R, k]
    return (scores + others.transpose(-2, -3)).movedim(1, -1) * query.shape[-1] ** -0.5
