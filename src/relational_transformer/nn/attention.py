"""Relational attention: queries, keys and values conditioned on the edge between two nodes."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import kernels
from .checks import check_edges, check_last_size, check_mask, check_not_negative, check_positive, check_same_dtype
from .initialization import reset_linear


class AttentionOutput(NamedTuple):
    """What attention returns: `messages` [..., Nq, H·D], and `weights` [..., H, Nq, Nk] where they were asked for.

    >>> attention = RelationalAttention(node_size=8, edge_size=4, num_heads=2, head_size=4)
    >>> messages, weights = attention(torch.randn(5, 8), torch.randn(5, 5, 4), need_weights=True)
    >>> torch.allclose(weights.sum(-1), torch.ones(2, 5))
    True
    """

    messages: Tensor
    weights: Tensor | None


def causal_mask(size: int, device: torch.device | str | None = None) -> Tensor:
    """Attention mask [size, size] in which node i attends to nodes 0 ... i.

    >>> causal_mask(3).int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


def relational_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Tensor,
    edge_weight: Tensor,
    *,
    num_heads: int,
    attention_mask: Tensor | None = None,
    need_weights: bool = False,
) -> AttentionOutput:
    r"""Multi-head attention of nodes to nodes along edge vectors (Eq. 2 of the paper, its split form).

    $$q_{ij} = q_i + W_e^Q e_{ij} \qquad k_{ij} = k_j + W_e^K e_{ij} \qquad v_{ij} = v_j + W_e^V e_{ij}$$

    $$\text{message}_i = \sum_j \text{softmax}_j\!\left(\frac{q_{ij} \cdot k_{ij}}{\sqrt{D}}\right) v_{ij}$$

    for each of H heads of size D. Heads are contiguous blocks of channels. Values are never built per edge:
    $\sum_j a_{ij} W_e^V e_{ij} = W_e^V \sum_j a_{ij} e_{ij}$ holds exactly.

    Args:
        query: $W_n^Q n_i$ with every bias already added, [..., Nq, H·D].
        key: [..., Nk, H·D].
        value: [..., Nk, H·D].
        edges: ``edges[..., i, j, :]`` is $e_{ij}$, along which i attends to j, [..., Nq, Nk, edge_size].
        edge_weight: $W_e^Q, W_e^K, W_e^V$ stacked, [3·H·D, edge_size].
        num_heads: H.
        attention_mask: bool, True where i may attend to j, [..., Nq, Nk]. A row without any gives zeros.
        need_weights: also return the attention weights.

    >>> nodes, edges = torch.randn(2, 5, 8), torch.randn(2, 5, 5, 3)
    >>> out = relational_attention(nodes, nodes, nodes, edges, torch.randn(24, 3), num_heads=2, need_weights=True)
    >>> out.messages.shape, out.weights.shape
    (torch.Size([2, 5, 8]), torch.Size([2, 2, 5, 5]))
    """
    size = query.shape[-1]
    _check_attention(query, key, value, edges, edge_weight, num_heads, attention_mask)
    if not need_weights and kernels.enabled(edges):
        messages = kernels.relational_attention(
            query, key, value, edges, edge_weight, num_heads=num_heads, attention_mask=attention_mask
        )
        return AttentionOutput(messages, None)

    head_size = size // num_heads
    heads = (num_heads, head_size)
    edge_query_key = F.linear(edges, edge_weight[: 2 * size])  # [..., Nq, Nk, 2·H·D]
    edge_query, edge_key = edge_query_key.chunk(2, dim=-1)
    products = (query.unsqueeze(-2) + edge_query) * (key.unsqueeze(-3) + edge_key)  # [..., Nq, Nk, H·D]
    # Scores and softmax in float32 at least, whatever autocast chose for the products.
    precise = torch.promote_types(products.dtype, torch.float32)
    scores = products.unflatten(-1, heads).sum(-1, dtype=precise) * head_size**-0.5  # [..., Nq, Nk, H]
    if attention_mask is not None:
        attention_mask = attention_mask.unsqueeze(-1)
        scores = scores.masked_fill(~attention_mask, torch.finfo(precise).min)
    weights = scores.softmax(dim=-2)
    if attention_mask is not None:
        weights = weights.masked_fill(~attention_mask, 0.0)  # a row without any neighbour: zeros
    weights = weights.to(products.dtype)

    by_head = weights.movedim(-1, -3)  # [..., H, Nq, Nk]
    node_part = by_head @ value.unflatten(-1, heads).movedim(-2, -3).to(weights.dtype)  # [..., H, Nq, D]
    context = weights.transpose(-1, -2) @ edges.to(weights.dtype)  # [..., Nq, H, edge_size]
    value_weight = edge_weight[2 * size :].unflatten(0, heads).to(weights.dtype)  # [H, D, edge_size]
    edge_part = context.movedim(-2, -3) @ value_weight.transpose(-1, -2)  # [..., H, Nq, D]
    messages = (node_part + edge_part).movedim(-3, -2).flatten(-2)
    return AttentionOutput(messages, by_head if need_weights else None)


class RelationalAttention(nn.Module):
    r"""Relational attention with its projections: $q_{ij} = W_n^Q n_i + W_e^Q e_{ij}$, k and v likewise.

    `node_qkv` and `edge_qkv` hold the three projections of nodes and of edges, stacked in the order q, k, v. With
    `global_size` a vector of the whole graph is projected as well and added to every q, k and v (the paper's `att`).
    The output is the concatenation of the heads, without an output projection.

    Shapes: nodes [..., N, node_size], edges [..., N, N, edge_size] -> messages [..., N, num_heads·head_size].
    Cross-attention: pass the attended nodes as `context` [..., Nk, node_size], with edges [..., N, Nk, edge_size].

    >>> attention = RelationalAttention(node_size=32, edge_size=8, num_heads=4, head_size=16)
    >>> attention(torch.randn(2, 5, 32), torch.randn(2, 5, 5, 8)).messages.shape
    torch.Size([2, 5, 64])
    """

    def __init__(self, *, node_size: int, edge_size: int, num_heads: int, head_size: int, global_size: int = 0) -> None:
        super().__init__()
        check_positive(node_size=node_size, edge_size=edge_size, num_heads=num_heads, head_size=head_size)
        check_not_negative(global_size=global_size)
        self.node_size = node_size
        self.edge_size = edge_size
        self.num_heads = num_heads
        self.head_size = head_size
        self.global_size = global_size
        stacked = 3 * num_heads * head_size
        self.node_qkv = nn.Linear(node_size, stacked)
        self.edge_qkv = nn.Linear(edge_size, stacked)
        self.global_qkv = nn.Linear(global_size, stacked) if global_size else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in (self.node_qkv, self.edge_qkv, self.global_qkv):
            if linear is not None:
                reset_linear(linear)

    def forward(
        self,
        nodes: Tensor,
        edges: Tensor,
        *,
        context: Tensor | None = None,
        node_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        globals: Tensor | None = None,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """Attend from `nodes` to themselves, or to `context`; `node_mask` [..., Nk] says which attended nodes exist."""
        check_last_size("nodes", nodes, self.node_size)
        check_last_size("edges", edges, self.edge_size)
        if (globals is None) != (self.global_qkv is None):
            raise ValueError(
                f"globals must be {'given' if self.global_qkv is not None else 'None'} "
                f"for an attention with global_size={self.global_size}"
            )
        num_keys = (nodes if context is None else context).shape[-2]
        check_mask("node_mask", node_mask, (num_keys,))
        check_mask("attention_mask", attention_mask, (nodes.shape[-2], num_keys))
        if node_mask is not None:
            present = node_mask.unsqueeze(-2)  # [..., 1, Nk]: nobody attends to an absent node
            attention_mask = present if attention_mask is None else attention_mask & present

        # The biases of the edge (and global) projections act on every pair alike: add them to the nodes, N times
        # fewer than the edges.
        shared = self.edge_qkv.bias
        if self.global_qkv is not None and globals is not None:
            check_last_size("globals", globals, self.global_size)
            shared = shared + self.global_qkv(globals).unsqueeze(-2)
        if context is None:
            query, key, value = (self.node_qkv(nodes) + shared).chunk(3, dim=-1)
        else:
            check_last_size("context", context, self.node_size)
            size = self.num_heads * self.head_size
            weight, bias = self.node_qkv.weight, self.node_qkv.bias
            query = F.linear(nodes, weight[:size], bias[:size]) + shared[..., :size]
            key, value = (F.linear(context, weight[size:], bias[size:]) + shared[..., size:]).chunk(2, dim=-1)
        return relational_attention(
            query,
            key,
            value,
            edges,
            self.edge_qkv.weight,
            num_heads=self.num_heads,
            attention_mask=attention_mask,
            need_weights=need_weights,
        )

    def extra_repr(self) -> str:
        sizes = f"node_size={self.node_size}, edge_size={self.edge_size}, heads={self.num_heads}x{self.head_size}"
        return sizes + (f", global_size={self.global_size}" if self.global_size else "")


def _check_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Tensor,
    edge_weight: Tensor,
    num_heads: int,
    attention_mask: Tensor | None,
) -> None:
    size = query.shape[-1]
    check_positive(num_heads=num_heads)
    if size % num_heads:
        raise ValueError(f"num_heads must divide the {size} channels of query, got num_heads={num_heads}")
    check_last_size("key", key, size)
    check_last_size("value", value, size)
    if value.shape[-2] != key.shape[-2]:
        raise ValueError(f"value must have the {key.shape[-2]} nodes of key, got shape {list(value.shape)}")
    check_edges(edges, query.shape[-2], key.shape[-2])
    if edge_weight.dim() != 2 or edge_weight.shape[0] != 3 * size or edge_weight.shape[1] != edges.shape[-1]:
        raise ValueError(
            f"edge_weight must be [3 x {size}, {edges.shape[-1]}] (q, k and v of {edges.shape[-1]}-channel edges), "
            f"got shape {list(edge_weight.shape)}"
        )
    if not torch.is_autocast_enabled(edges.device.type):
        check_same_dtype(query=query, key=key, value=value, edges=edges)
    check_mask("attention_mask", attention_mask, (query.shape[-2], key.shape[-2]))
