"""Triplet-GMPNN: message passing with messages over triplets of nodes, and a gate on the change of a step."""

from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relational_transformer.nn.checks import MOST_LAYERS, check_flag, check_size, check_size_or_zero
from relational_transformer.nn.initialization import reset_linear

from .largest import largest
from .pgn import MessagePassingLayer
from .processor import GraphState, Processor, enter, neighbours
from .settings import Settings

TRIPLET_SIZE = 8
"""The published size of a triplet's vector."""

GATE_BIAS = -3.0
"""The published initial bias of a gate, which lets a twentieth of a change pass."""

_ABSENT = -1e6


class Gate(nn.Module):
    r"""A gate on a change, for every number of a vector.

    $$s_i = \sigma(W_3\,\text{ReLU}(W_1 z_i + W_2 m_i)) \qquad h'_i = s_i r_i + (1 - s_i)\,h_i$$

    Shapes: nodes z [..., N, node_size], messages m, changed r and hidden h [..., N, size] -> [..., N, size].
    """

    def __init__(self, node_size: int, size: int) -> None:
        super().__init__()
        self.from_nodes = nn.Linear(node_size, size)
        self.from_messages = nn.Linear(size, size)
        self.output = nn.Linear(size, size)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in (self.from_nodes, self.from_messages, self.output):
            reset_linear(linear)
        nn.init.constant_(self.output.bias, GATE_BIAS)

    def forward(self, nodes: Tensor, messages: Tensor, changed: Tensor, hidden: Tensor) -> Tensor:
        openness = self.output(F.relu(self.from_nodes(nodes) + self.from_messages(messages))).sigmoid()
        return openness * changed + (1 - openness) * hidden


class TripletMessages(nn.Module):
    r"""A message to every edge from all triangles over it; $t$ is a small vector.

    $$t_{ijk} = U_1 z_i + U_2 z_j + U_3 z_k + V_1 e_{ij} + V_2 e_{ik} + V_3 e_{jk} + G g \qquad
    m_{jk} = \text{ReLU}(W \max_i t_{ijk})$$

    Shapes: nodes z [..., N, node_size], edges e [..., N, N, size], globals g [..., size] -> [..., N, N, size].
    """

    def __init__(self, node_size: int, size: int, triplet_size: int) -> None:
        super().__init__()
        self.from_nodes = nn.Linear(node_size, 3 * triplet_size)  # of i, j and k, stacked
        self.from_edges = nn.Linear(size, 3 * triplet_size)  # of ij, ik and jk, stacked
        self.from_globals = nn.Linear(size, triplet_size)
        self.output = nn.Linear(triplet_size, size)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in (self.from_nodes, self.from_edges, self.from_globals, self.output):
            reset_linear(linear)

    def forward(self, nodes: Tensor, edges: Tensor, globals: Tensor, node_mask: Tensor | None = None) -> Tensor:
        first, second, third = self.from_nodes(nodes).chunk(3, dim=-1)  # [..., N, triplet_size]
        to_second, to_third, between = self.from_edges(edges).chunk(3, dim=-1)  # [..., N, N, triplet_size]
        # Terms that do not depend on i are added after the maximum over i.
        from_first = first.unsqueeze(-2) + to_second  # [..., i, j, triplet_size]
        if node_mask is not None:
            from_first = torch.where(node_mask[..., None, None], from_first, _ABSENT)
        triplets = largest(from_first.unsqueeze(-2) + to_third.unsqueeze(-3), -4)  # [..., i, j, k, .] -> [..., j, k, .]
        around = second.unsqueeze(-2) + third.unsqueeze(-3) + between
        around = around + self.from_globals(globals)[..., None, None, :]
        return F.relu(self.output(triplets + around))


class TripletGMPNN(Processor):
    """Triplet-GMPNN (Ibarz et al., 2022), the usual baseline on CLRS-30.

    Every pair of nodes exchanges messages. Messages of triplets take memory of N³ and go to the decoders alone; only
    nodes are carried to the next step. Every layer reads the features and the nodes of the layer before.

    Args:
        hidden_size: the size of all vectors.
        num_layers: 1, as published.
        triplet_size: the size of triplets' vectors; 0 for no triplets.
        gated: whether a layer has a `Gate`.
    """

    def __init__(
        self, hidden_size: int, num_layers: int = 1, *, triplet_size: int = TRIPLET_SIZE, gated: bool = True
    ) -> None:
        super().__init__()
        check_size(hidden_size=hidden_size)
        check_size(MOST_LAYERS, num_layers=num_layers)
        check_size_or_zero(triplet_size=triplet_size)
        check_flag(gated=gated)
        self.returns_messages = triplet_size > 0
        layers = range(num_layers)
        self.layers = nn.ModuleList(MessagePassingLayer(2 * hidden_size, hidden_size) for _ in layers)
        self.gates = nn.ModuleList(Gate(2 * hidden_size, hidden_size) for _ in layers) if gated else None
        self.triplets = TripletMessages(2 * hidden_size, hidden_size, triplet_size) if triplet_size else None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        return cls(settings.hidden_size, settings.num_layers)

    def forward(
        self, features: GraphState, hidden: GraphState, adjacency: Tensor | None, node_mask: Tensor | None = None
    ) -> GraphState:
        first = self.layers[0]
        assert isinstance(first, MessagePassingLayer)
        fit = first.from_edges, first.from_messages.out_features
        features, hidden = enter(features, hidden, None, node_mask, *fit)
        assert features.edges is not None
        assert features.globals is not None
        senders = neighbours(None, node_mask)
        senders = None if senders is None else senders.transpose(-1, -2)
        nodes, read = hidden.nodes, hidden.nodes
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, MessagePassingLayer)
            read = torch.cat([features.nodes, nodes], dim=-1)
            changed, received = layer.exchange(read, features.edges, features.globals, senders)
            nodes = changed if self.gates is None else self.gates[number](read, received, changed, nodes)
        if self.triplets is None:
            return GraphState(nodes)
        return GraphState(nodes, self.triplets(read, features.edges, features.globals, node_mask))


class GMPNN(TripletGMPNN):
    """Triplet-GMPNN without triplets: message passing with a gate."""

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        return cls(settings.hidden_size, settings.num_layers, triplet_size=0)


class TripletMPNN(TripletGMPNN):
    """Triplet-GMPNN without the gate."""

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        return cls(settings.hidden_size, settings.num_layers, gated=False)
