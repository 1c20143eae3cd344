"""The Working Memory Graph agent (Loynd et al., 2020): from core, factors and a memo as nodes to a policy and a
value."""

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relational_transformer.nn import LayerOutput, RelationalTransformerLayer
from relational_transformer.processors.transformer import TransformerLayer

from .game.observation import CORE_SIZE, FACTOR_SIZE, Observation
from .game.rules import ACTIONS
from .settings import AgentSettings

Model = Literal["transformer", "rt"]
AGE_SIZE = 3
"""The age of a memo is a one-hot code and a number. There is one memo, whose age is (1, 0 | 0)."""


class Memo(NamedTuple):
    """The memo of the previous step: `vector` [B, memo_size], and whether there is one, `kept` bool [B]."""

    vector: Tensor
    kept: Tensor


class Graph(NamedTuple):
    """Nodes [B, N, size], latent edges [B, N, N, edge_size] (None in the transformer), and which nodes are present."""

    nodes: Tensor
    edges: Tensor | None
    node_mask: Tensor


class Decision(NamedTuple):
    """`logits` [B, 5] of the policy, the `value` [B] and the memo of this step, [B, memo_size]. All are float32 or
    better; policy and value are also computed so."""

    logits: Tensor
    value: Tensor
    memo: Tensor


class NodeLayer(nn.Module):
    """A transformer layer with the interface of a relational one; its edges are None."""

    def __init__(self, settings: AgentSettings) -> None:
        super().__init__()
        self.layer = TransformerLayer(settings.size, settings.num_heads, settings.node_hidden_size)

    def forward(self, nodes: Tensor, edges: None, node_mask: Tensor) -> tuple[Tensor, None]:
        return self.layer(nodes, node_mask), edges


class PairLayer(RelationalTransformerLayer):
    """A relational layer that does not check its graphs: the agent makes them, and absent nodes hold finite numbers."""

    def forward(self, nodes: Tensor, edges: Tensor, node_mask: Tensor) -> LayerOutput:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().forward(nodes, edges, node_mask, checked=True)


class CoreLayer(nn.Module):
    """The last relational layer. Only its core vector is used, so it updates no other node and no edge."""

    def __init__(self, settings: AgentSettings) -> None:
        super().__init__()
        self.layer = _relational_layer(settings, update_edges=False)

    def forward(self, nodes: Tensor, edges: Tensor, node_mask: Tensor) -> tuple[Tensor, None]:
        """The new core vector: [B, N, size] -> [B, 1, size]."""
        layer, core = self.layer, nodes[..., :1, :]
        messages = layer.attention(
            core, edges[..., :1, :, :], context=nodes, node_mask=node_mask, checked=True
        ).messages
        core = layer.node_norm(core + layer.node_output(messages))
        update = layer.node_feed_forward_out(F.relu(layer.node_feed_forward_in(core)))
        return layer.node_feed_forward_norm(core + update), None


class Agent(nn.Module):
    r"""WMG with a transformer, as published, or with a relational transformer in its place.

    Core, factors and memo are embedded by a Linear each and are the nodes of a set; after the layers only the core's
    vector c is used:

    $$\text{memo}' = \tanh(W_m c) \qquad
    h = \text{ReLU}(W_h c) \qquad \text{policy} = \text{softmax}(W_p h) \qquad \text{value} = w_v \cdot h$$

    **Edges are latent**: the edge vectors of the first relational layer are zero for every pair of nodes, and the input
    has nothing that belongs to a pair.

    The agent consists of `embed`, `layers` and `decide`, so that a trainer can compile one layer and use it for all.

    >>> sum(parameter.numel() for parameter in Agent("transformer").parameters())  # the published agent's
    4508182
    """

    def __init__(self, model: Model, settings: AgentSettings | None = None) -> None:
        super().__init__()
        settings = AgentSettings() if settings is None else settings
        if model not in get_args(Model):
            raise ValueError(f"the agent has no model {model!r}; the models are {', '.join(get_args(Model))}")
        self.model: Model = model
        self.settings = settings
        size = settings.size
        self.core_embedding = nn.Linear(CORE_SIZE, size)
        self.factor_embedding = nn.Linear(FACTOR_SIZE, size)
        self.memo_embedding = nn.Linear(settings.memo_size, size)
        self.age_embedding = nn.Linear(AGE_SIZE, size)
        self.layers = nn.ModuleList(
            _layer(model, settings, is_last) for is_last in [False] * (settings.num_layers - 1) + [True]
        )
        self.memo = nn.Linear(size, settings.memo_size)
        self.hidden = nn.Linear(size, settings.decision_size)
        self.value = nn.Linear(settings.decision_size, 1)
        self.policy = nn.Linear(settings.decision_size, len(ACTIONS))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise as published: weights uniform in ±1/√fan_in, biases and the policy's weights zero."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                bound = module.in_features**-0.5
                module.weight.uniform_(-bound, bound)
                module.bias.zero_()
        self.policy.weight.zero_()

    def forward(self, observation: Observation, memo: Memo) -> Decision:
        graph = self.embed(observation, memo)
        for layer in self.layers:
            nodes, edges = layer(graph.nodes, graph.edges, graph.node_mask)
            graph = Graph(nodes, edges, graph.node_mask)
        return self.decide(graph.nodes)

    def embed(self, observation: Observation, memo: Memo) -> Graph:
        """Core, memo and factors as the nodes of a graph, in this order."""
        kind = self.core_embedding.weight.dtype
        age = self.age_embedding.weight[:, 0] + self.age_embedding.bias
        core = self.core_embedding(observation.core.to(kind))
        remembered = self.memo_embedding(memo.vector.to(kind)) + age
        nodes = torch.cat(
            [core.unsqueeze(-2), remembered.unsqueeze(-2), self.factor_embedding(observation.factors.to(kind))], dim=-2
        )
        kept = memo.kept.unsqueeze(-1)
        node_mask = torch.cat([torch.ones_like(kept), kept, observation.present], dim=-1)
        edges = None
        if self.model == "rt":
            edges = nodes.new_zeros(*node_mask.shape, node_mask.shape[-1], self.settings.edge_size)
        return Graph(nodes, edges, node_mask)

    def decide(self, nodes: Tensor) -> Decision:
        """Policy, value and memo from the core's vector."""
        core = nodes[..., 0, :]
        hidden = F.relu(self.hidden(core))
        precise = torch.promote_types(core.dtype, torch.float32)
        logits, value = (
            F.linear(hidden.to(precise), head.weight.to(precise), head.bias.to(precise))
            for head in (self.policy, self.value)
        )
        return Decision(logits, value.squeeze(-1), torch.tanh(self.memo(core).to(precise)))


def _layer(model: Model, settings: AgentSettings, is_last: bool) -> nn.Module:
    if model == "transformer":
        return NodeLayer(settings)
    return CoreLayer(settings) if is_last else _relational_layer(settings)


def _relational_layer(settings: AgentSettings, update_edges: bool = True) -> RelationalTransformerLayer:
    return PairLayer(
        node_size=settings.size,
        edge_size=settings.edge_size,
        num_heads=settings.num_heads,
        head_size=settings.size // settings.num_heads,
        node_hidden_size=settings.node_hidden_size,
        edge_hidden_sizes=settings.edge_hidden_sizes,
        update_edges=update_edges,
    )
