"""The standard transformer as a processor: RT with its edge vectors disabled."""

from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relational_transformer.nn import ConcatLinear
from relational_transformer.nn.checks import MOST_LAYERS, check_size
from relational_transformer.nn.initialization import reset_linear
from relational_transformer.nn.plain import replaceable

from .processor import GraphState, Processor, enter
from .settings import Settings, check_heads

FEW_NODES = 32
"""The number of nodes up to which compiled attention uses sums instead of tiny matrix products, which need copies."""


def attend(query: Tensor, key: Tensor, value: Tensor, node_mask: Tensor | None = None) -> Tensor:
    r"""Messages $\sum_j \text{softmax}_j(q_i \cdot k_j / \sqrt{D})\, v_j$ of each head.

    Shapes: query, key, value [..., N, H, D], node_mask bool [..., N] -> [..., N, H, D].
    """
    query, key, value = (vectors.transpose(-2, -3) for vectors in (query, key, value))  # [..., H, N, D]
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    if node_mask is not None:
        scores = scores.masked_fill(~node_mask[..., None, None, :], torch.finfo(scores.dtype).min)
    return (scores.softmax(-1).to(value.dtype) @ value).transpose(-2, -3)


def attend_by_sums(query: Tensor, key: Tensor, value: Tensor, node_mask: Tensor | None = None) -> Tensor:
    """`attend` without matrix products. Compiled, it makes three passes and no copies."""
    precise = torch.promote_types(query.dtype, torch.float32)
    scores = (query.unsqueeze(-3) * key.unsqueeze(-4)).sum(-1, dtype=precise) * query.shape[-1] ** -0.5
    if node_mask is not None:  # scores are [..., i, j, H]
        scores = scores.masked_fill(~node_mask[..., None, :, None], torch.finfo(precise).min)
    weighted = scores.softmax(-2).unsqueeze(-1) * value.unsqueeze(-4)  # [..., i, j, H, D]
    return weighted.sum(-3).to(value.dtype)


class TransformerLayer(nn.Module):
    r"""A transformer layer (Vaswani et al., 2017), post-norm, on a set of nodes.

    $$h_i = \text{LayerNorm}(W_1\,\text{attention}_i + n_i) \qquad
    n'_i = \text{LayerNorm}(W_3\,\text{ReLU}(W_2 h_i) + h_i)$$

    Shapes: nodes [..., N, size] -> [..., N, size]; node_mask bool [..., N].
    """

    def __init__(self, size: int, num_heads: int, hidden_size: int) -> None:
        super().__init__()
        self.size, self.num_heads, self.hidden_size = size, num_heads, hidden_size
        self.qkv = nn.Linear(size, 3 * size)
        self.output = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size)
        self.feed_forward_in = nn.Linear(size, hidden_size)
        self.feed_forward_out = nn.Linear(hidden_size, size)
        self.feed_forward_norm = nn.LayerNorm(size)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in (self.qkv, self.output, self.feed_forward_in, self.feed_forward_out):
            reset_linear(linear)
        self.norm.reset_parameters()
        self.feed_forward_norm.reset_parameters()

    @replaceable
    def forward(self, nodes: Tensor, node_mask: Tensor | None) -> Tensor:
        query, key, value = self.qkv(nodes).unflatten(-1, (3, self.num_heads, -1)).unbind(-3)  # [..., N, H, D]
        few = torch.compiler.is_compiling() and nodes.shape[-2] <= FEW_NODES
        messages = (attend_by_sums if few else attend)(query, key, value, node_mask).flatten(-2)
        nodes = self.norm(nodes + self.output(messages))
        return self.feed_forward_norm(nodes + self.feed_forward_out(F.relu(self.feed_forward_in(nodes))))


class Transformer(Processor):
    """The set transformer of the paper's ablation: no edge vectors; the global vector is concatenated to every node."""

    def __init__(self, hidden_size: int, num_layers: int, num_heads: int, *, node_hidden_size: int) -> None:
        super().__init__()
        check_heads(hidden_size, num_heads)
        check_size(MOST_LAYERS, num_layers=num_layers)
        check_size(node_hidden_size=node_hidden_size)
        self.hidden_size = hidden_size
        self.node_input = ConcatLinear(3 * hidden_size, hidden_size)
        self.layers = nn.ModuleList(
            TransformerLayer(hidden_size, num_heads, node_hidden_size) for _ in range(num_layers)
        )

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        return cls(
            settings.hidden_size, settings.num_layers, settings.num_heads, node_hidden_size=settings.node_hidden_size
        )

    @replaceable
    def forward(
        self, features: GraphState, hidden: GraphState, adjacency: Tensor | None, node_mask: Tensor | None = None
    ) -> GraphState:
        features, hidden = enter(features, hidden, adjacency, node_mask, self.node_input, self.hidden_size)
        assert features.globals is not None
        # With few nodes, one product of the concatenation is faster than three without it.
        whole = features.globals.unsqueeze(-2).expand_as(features.nodes)
        nodes = self.node_input(torch.cat([features.nodes, hidden.nodes, whole], dim=-1))
        for layer in self.layers:
            nodes = layer(nodes, node_mask)
        return GraphState(nodes)
