"""Pointer Graph Networks: message passing with max aggregation along an adjacency that changes from step to step."""

from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relational_transformer.nn.checks import MOST_LAYERS, check_size
from relational_transformer.nn.initialization import reset_linear
from relational_transformer.nn.plain import is_plain

from .alignment import align, aligned_linear
from .largest import largest
from .processor import GraphState, Processor, enter, neighbours
from .settings import Settings

_NOT_ADJACENT = -1e6


class MessagePassingLayer(nn.Module):
    r"""Messages between pairs of nodes, their maximum over senders, and a skip connection.

    $$m_{ac} = \text{MLP}(\text{ReLU}(W_1 z_c + W_2 z_a + W_3 e_{ac} + W_4 g)) \qquad
    z'_c = \text{LayerNorm}(\text{ReLU}(W_5 z_c + W_6 \max_{a \sim c} m_{ac}))$$

    With edges of nodes alone (e_cc, [..., N, size]) every node receives only its own message: N messages, not N².

    Shapes: nodes z [..., N, node_size], edges e [..., N, N, size], globals g [..., size] -> [..., N, size].
    """

    def __init__(self, node_size: int, size: int) -> None:
        super().__init__()
        self.from_nodes = nn.Linear(node_size, 3 * size)  # receiver, sender and skip terms of z, stacked
        self.from_edges = nn.Linear(size, size)
        self.from_globals = nn.Linear(size, size)
        self.message_hidden = nn.Linear(size, size)
        self.message_out = nn.Linear(size, size)
        self.from_messages = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for child in self.children():
            if isinstance(child, nn.Linear):
                reset_linear(child)
        self.norm.reset_parameters()

    def forward(self, nodes: Tensor, edges: Tensor, globals: Tensor, adjacency: Tensor | None) -> Tensor:
        return self.exchange(nodes, edges, globals, adjacency)[0]

    def exchange(
        self, nodes: Tensor, edges: Tensor, globals: Tensor, adjacency: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The new nodes z', and the largest message m that each of them has received."""
        if all(is_plain(child) for child in self.children()):
            return self._apply_weights(nodes, edges, globals, adjacency)
        receiver, sender, skip = self.from_nodes(nodes).chunk(3, dim=-1)
        receiver = receiver + self.from_globals(globals).unsqueeze(-2)
        messages = F.relu(_pairs(sender, receiver, edges) + self.from_edges(edges))
        messages = self.message_out(F.relu(self.message_hidden(messages)))
        received = _received(messages, nodes, adjacency)
        return self.norm(F.relu(skip + self.from_messages(received))), received

    def _apply_weights(
        self, nodes: Tensor, edges: Tensor, globals: Tensor, adjacency: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The messages, with each bias added where it costs least, and with aligned channels in compiled code."""
        nodes, edges, globals = align(nodes, -1), align(edges, -1), align(globals, -1)
        stacked = self.from_nodes.weight.unflatten(0, (3, -1)), self.from_nodes.bias.unflatten(0, (3, -1))
        weight, bias = align(stacked[0], -1, -2).flatten(0, 1), align(stacked[1], -1).flatten()
        receiver, sender, skip = F.linear(nodes, weight, bias).chunk(3, dim=-1)
        # Terms that all messages to a node share are added once per node: the bias of edges before the pairs, and the
        # last bias after the maximum, which it does not change.
        receiver = receiver + aligned_linear(globals, self.from_globals).unsqueeze(-2) + align(self.from_edges.bias, -1)
        pairs = _pairs(sender, receiver, edges)
        messages = F.relu(pairs + F.linear(edges, align(self.from_edges.weight, -1, -2)))
        messages = F.relu(aligned_linear(messages, self.message_hidden))
        messages = F.linear(messages, align(self.message_out.weight, -1, -2))
        received = _received(messages, nodes, adjacency) + align(self.message_out.bias, -1)
        updated = F.relu(skip + aligned_linear(received, self.from_messages))
        size = self.from_messages.out_features
        return self.norm(updated[..., :size]), received[..., :size]


def _pairs(sender: Tensor, receiver: Tensor, edges: Tensor) -> Tensor:
    """Sums for each pair, [..., sender a, receiver c, size]; for each node alone if edges are given for nodes."""
    if edges.dim() == receiver.dim():
        return receiver + sender
    return receiver.unsqueeze(-3) + sender.unsqueeze(-2)


def _received(messages: Tensor, nodes: Tensor, adjacency: Tensor | None) -> Tensor:
    """The largest message to each node, [..., N, size]."""
    if adjacency is not None:
        messages = torch.where(adjacency.unsqueeze(-1), messages, _NOT_ADJACENT)
    return messages if messages.dim() == nodes.dim() else largest(messages, -3)


class PGN(Processor):
    """Pointer Graph Network (Veličković et al., 2020), the paper's PGN-u: max aggregation over adjacent nodes."""

    uses_adjacency = True

    def __init__(self, hidden_size: int, num_layers: int) -> None:
        super().__init__()
        check_size(hidden_size=hidden_size)
        check_size(MOST_LAYERS, num_layers=num_layers)
        self.hidden_size = hidden_size
        self.layers = nn.ModuleList(
            MessagePassingLayer(hidden_size if index else 2 * hidden_size, hidden_size) for index in range(num_layers)
        )

    @property
    def fit(self) -> tuple[nn.Module, int]:
        """The module that reads nodes first, and the size of vectors of a step."""
        return self.layers[0].get_submodule("from_nodes"), self.hidden_size

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        return cls(settings.hidden_size, settings.num_layers)

    def forward(
        self, features: GraphState, hidden: GraphState, adjacency: Tensor | None, node_mask: Tensor | None = None
    ) -> GraphState:
        features, hidden = enter(features, hidden, adjacency, node_mask, *self.fit)
        nodes = torch.cat([features.nodes, hidden.nodes], dim=-1)
        # Adjacency is symmetric. An absent node sends no message, so its row, the first axis, is masked.
        senders = neighbours(adjacency, node_mask)
        senders = None if senders is None else senders.transpose(-1, -2)
        for layer in self.layers:
            nodes = layer(nodes, features.edges, features.globals, senders)
        return GraphState(nodes)


class MaskedPGN(PGN):
    """The paper's PGN-m: a PGN whose node pointers and edge masks are decoded along the adjacency only."""

    masks_decoders = True
