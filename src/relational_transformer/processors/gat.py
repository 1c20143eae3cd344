"""Graph attention networks, first version: attention weights from a sum of scores of the two nodes and the edge."""

from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relational_transformer.nn.checks import MOST_LAYERS, check_size
from relational_transformer.nn.initialization import reset_linear

from .processor import GraphState, Processor, enter, neighbours
from .settings import Settings, check_heads

NOT_ADJACENT = -1e9
"""Added to the attention score of nodes that are not adjacent."""


class GATLayer(nn.Module):
    r"""Graph attention with H heads and a skip connection.

    $$s_{ij} = \text{LeakyReLU}(a_1(z_i) + a_2(z_j) + a_e(e_{ij}) + a_g(g)) \qquad
    z'_i = \text{LayerNorm}(\text{ReLU}(\textstyle\sum_{j \sim i} \text{softmax}_j(s_{ij})\, W z_j + W_s z_i))$$

    Shapes: nodes z [..., N, node_size], edges e [..., N, N, size], globals g [..., size] -> [..., N, size].
    """

    def __init__(self, node_size: int, size: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.from_nodes = nn.Linear(node_size, 2 * size + 2 * num_heads)  # values, skip, a_1, a_2, stacked
        self.edge_score = nn.Linear(size, num_heads)
        self.global_score = nn.Linear(size, num_heads)
        self.norm = nn.LayerNorm(size)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in (self.from_nodes, self.edge_score, self.global_score):
            reset_linear(linear)
        self.norm.reset_parameters()

    def forward(self, nodes: Tensor, edges: Tensor, globals: Tensor, adjacency: Tensor | None) -> Tensor:
        size, heads = edges.shape[-1], self.num_heads
        values, skip, receiver, sender = self.from_nodes(nodes).split([size, size, heads, heads], dim=-1)
        receiver = receiver + self.global_score(globals).unsqueeze(-2)
        scores = receiver.unsqueeze(-2) + sender.unsqueeze(-3) + self.edge_score(edges)  # [..., i, j, H]
        return self.norm(F.relu(attend(F.leaky_relu(scores), values, adjacency) + skip))


def attend(scores: Tensor, values: Tensor, adjacency: Tensor | None) -> Tensor:
    """Softmax of scores [..., i, j, H] over adjacent j, and the sum of values [..., j, H·D] weighted by it."""
    if adjacency is not None:
        scores = scores + torch.where(adjacency, 0.0, NOT_ADJACENT).unsqueeze(-1)
    weights = scores.softmax(dim=-2).movedim(-1, -3).to(values.dtype)  # [..., H, i, j]
    values = values.unflatten(-1, (scores.shape[-1], -1)).movedim(-2, -3)  # [..., H, j, D]
    return (weights @ values).movedim(-3, -2).flatten(-2)


class GAT(Processor):
    """Graph Attention Network (Veličković et al., 2018), attending along the adjacency."""

    uses_adjacency = True
    layer: type[nn.Module] = GATLayer

    def __init__(self, hidden_size: int, num_layers: int, num_heads: int) -> None:
        super().__init__()
        check_heads(hidden_size, num_heads)
        check_size(MOST_LAYERS, num_layers=num_layers)
        self.hidden_size = hidden_size
        self.layers = nn.ModuleList(
            self.layer(hidden_size if index else 2 * hidden_size, hidden_size, num_heads) for index in range(num_layers)
        )

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        return cls(settings.hidden_size, settings.num_layers, settings.num_heads)

    def forward(
        self, features: GraphState, hidden: GraphState, adjacency: Tensor | None, node_mask: Tensor | None = None
    ) -> GraphState:
        from_nodes = self.layers[0].get_submodule("from_nodes")
        features, hidden = enter(features, hidden, adjacency, node_mask, from_nodes, self.hidden_size)
        nodes = torch.cat([features.nodes, hidden.nodes], dim=-1)
        pairs = neighbours(adjacency, node_mask)
        for layer in self.layers:
            nodes = layer(nodes, features.edges, features.globals, pairs)
        return GraphState(nodes)


class FullGAT(GAT):
    """A GAT in which every node attends to every node."""

    uses_adjacency = False

    def forward(
        self, features: GraphState, hidden: GraphState, adjacency: Tensor | None, node_mask: Tensor | None = None
    ) -> GraphState:
        return super().forward(features, hidden, None, node_mask)
