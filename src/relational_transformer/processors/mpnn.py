"""The message-passing network of CLRS-30: a PGN in which every pair of nodes is adjacent."""

from torch import Tensor

from .pgn import PGN
from .processor import GraphState


class MPNN(PGN):
    """Message Passing Neural Network (Gilmer et al., 2017) with max aggregation over all nodes."""

    uses_adjacency = False

    def forward(
        self, features: GraphState, hidden: GraphState, adjacency: Tensor | None, node_mask: Tensor | None = None
    ) -> GraphState:
        return super().forward(features, hidden, None, node_mask)
