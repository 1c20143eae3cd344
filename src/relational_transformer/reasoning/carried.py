"""What of a step's hidden state the next step sees: all of it, as published, a part that gates let through, or nothing."""

from typing import Literal

import torch
from torch import Tensor, nn

from relational_transformer.nn.initialization import reset_linear
from relational_transformer.processors import GraphState
from relational_transformer.processors.triplet_gmpnn import Gate

CarryMode = Literal["all", "gated", "forgetful", "none"]


class Gates(nn.Module):
    """A `Gate` on the change of every node and, where they are carried, of every edge."""

    def __init__(self, size: int, *, edges: bool) -> None:
        super().__init__()
        self.nodes = Gate(2 * size, size)
        self.edges = Gate(2 * size, size) if edges else None

    def forward(self, features: GraphState, hidden: GraphState, new: GraphState) -> GraphState:
        nodes = _gated(self.nodes, features.nodes, hidden.nodes, new.nodes)
        if self.edges is None:
            return new._replace(nodes=nodes)
        assert features.edges is not None
        assert hidden.edges is not None
        assert new.edges is not None
        return new._replace(nodes=nodes, edges=_gated(self.edges, features.edges, hidden.edges, new.edges))


def _gated(gate: nn.Module, features: Tensor, hidden: Tensor, new: Tensor) -> Tensor:
    return gate(torch.cat([features, hidden], dim=-1), new, new, hidden)


class Forgetting(nn.Module):
    r"""Gates on what is read of the last hidden state: $g_i h_i$ with $g_i = \sigma(W [x_i, h_i])$."""

    def __init__(self, size: int, *, edges: bool) -> None:
        super().__init__()
        self.nodes = nn.Linear(2 * size, size)
        self.edges = nn.Linear(2 * size, size) if edges else None
        for linear in (self.nodes, self.edges):
            if linear is not None:
                reset_linear(linear)

    def forward(self, features: GraphState, hidden: GraphState) -> GraphState:
        nodes = _let_through(self.nodes, features.nodes, hidden.nodes)
        if self.edges is None:
            return hidden._replace(nodes=nodes)
        assert features.edges is not None
        assert hidden.edges is not None
        return hidden._replace(nodes=nodes, edges=_let_through(self.edges, features.edges, hidden.edges))


def _let_through(linear: nn.Module, features: Tensor, hidden: Tensor) -> Tensor:
    return linear(torch.cat([features, hidden], dim=-1)).sigmoid() * hidden


def nothing(hidden: GraphState) -> GraphState:
    """Zeros in the form of a hidden state."""
    return GraphState(*(None if part is None else torch.zeros_like(part) for part in hidden))
