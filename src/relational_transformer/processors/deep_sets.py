"""Deep Sets: a PGN in which every node receives only its own message."""

import torch
from torch import Tensor

from .pgn import PGN
from .processor import GraphState, enter


class DeepSets(PGN):
    """Deep Sets (Zaheer et al., 2017): each node on its own, with its self-edge and the global vector."""

    uses_adjacency = False

    def forward(
        self, features: GraphState, hidden: GraphState, adjacency: Tensor | None, node_mask: Tensor | None = None
    ) -> GraphState:
        features, hidden = enter(features, hidden, None, node_mask, *self.fit)
        nodes = torch.cat([features.nodes, hidden.nodes], dim=-1)
        assert features.edges is not None
        own = features.edges.diagonal(dim1=-3, dim2=-2).movedim(-1, -2)  # e_cc, [..., N, size]
        for layer in self.layers:
            nodes = layer(nodes, own, features.globals, None)
        return GraphState(nodes)
