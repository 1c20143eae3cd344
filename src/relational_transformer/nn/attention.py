"""Relational attention: queries, keys and values conditioned on the edge between two nodes."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import kernels
from .checks import (
    check_alike,
    check_batches,
    check_bias,
    check_edges,
    check_flag,
    check_globals,
    check_log_scaling_size,
    check_mask,
    check_number,
    check_place,
    check_positive,
    check_size,
    check_size_or_zero,
    check_tensor,
    check_vectors,
    check_weights,
    checked_head_size,
    shown,
)
from .initialization import reset_linear
from .padding import present_nodes
from .plain import is_plain, replaceable
from .scores import ScoreRule, attention_weights


class AttentionOutput(NamedTuple):
    """The output of attention: `messages` [..., Nq, H·D], and `weights` [..., H, Nq, Nk] if they were requested.

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
    if not isinstance(size, torch.SymInt):  # a size that an exporter leaves symbolic
        check_size_or_zero(size=size)
    check_place(device)
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
    attention_bias: Tensor | None = None,
    dropout: float = 0.0,
    log_scaling_size: int | None = None,
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
        attention_mask: bool, True where i may attend to j, [..., Nq, Nk]. A row without any True gives zeros. Masked
            edges, queries that attend to nothing, and keys and values that nothing attends to affect no message and
            no gradient, even if they are NaN.
        attention_bias: added to the scores, [..., H, Nq, Nk]; each of these axes may be 1 to broadcast. Where it is
            -inf, i does not attend to j in that head: a mask for each head. A row of -inf gives zeros.
        dropout: the share of weights that are dropped; the others are scaled up.
        log_scaling_size: if given, the scores of a node that attends to n nodes are multiplied by
            log n / log log_scaling_size, so that attention stays as sharp on larger graphs.
        need_weights: also return the attention weights, before dropout.

    >>> nodes, edges = torch.randn(2, 5, 8), torch.randn(2, 5, 5, 3)
    >>> out = relational_attention(nodes, nodes, nodes, edges, torch.randn(24, 3), num_heads=2, need_weights=True)
    >>> out.messages.shape, out.weights.shape
    (torch.Size([2, 5, 8]), torch.Size([2, 2, 5, 5]))
    """
    _check_attention(query, key, value, edges, edge_weight, num_heads, attention_mask, attention_bias)
    check_number("dropout", dropout, below=1.0)
    check_log_scaling_size(log_scaling_size)
    check_flag(need_weights=need_weights)
    if attention_mask is not None:
        query, key, value, edges = _only_attended(query, key, value, edges, attention_mask)
    rule = ScoreRule(attention_mask, attention_bias, log_scaling_size)
    return _attend(query, key, value, edges, edge_weight, num_heads, rule, dropout, need_weights)


def _only_attended(
    query: Tensor, key: Tensor, value: Tensor, edges: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The inputs with zeros wherever no pair of `mask` [..., Nq, Nk] reads them: zero times NaN would be NaN."""
    attends, is_attended = mask.any(-1), mask.any(-2)
    key, value = present_nodes(key, is_attended), present_nodes(value, is_attended)
    return present_nodes(query, attends), key, value, torch.where(mask.unsqueeze(-1), edges, 0)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Tensor,
    edge_weight: Tensor,
    num_heads: int,
    rule: ScoreRule,
    dropout: float,
    need_weights: bool,
) -> AttentionOutput:
    """`relational_attention` of checked arguments, whose masked values are finite."""
    if rule.is_published and not dropout and not need_weights and kernels.enabled(edges):
        messages = kernels.relational_attention(
            query, key, value, edges, edge_weight, num_heads=num_heads, attention_mask=rule.mask
        )
        return AttentionOutput(messages, None)

    size = query.shape[-1]
    weights = attention_weights(query, key, F.linear(edges, edge_weight[: 2 * size]), num_heads, rule)
    kept = F.dropout(weights, dropout) if dropout else weights
    context = kept.transpose(-1, -2) @ edges.to(weights.dtype)  # [..., Nq, H, edge_size]
    value_weight = edge_weight[2 * size :].unflatten(0, (num_heads, -1)).to(weights.dtype)  # [H, D, edge_size]
    edge_part = context.movedim(-2, -3) @ value_weight.transpose(-1, -2)  # [..., H, Nq, D]
    return AttentionOutput(_messages(kept, value, edge_part), weights.movedim(-1, -3) if need_weights else None)


def _attend_along(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edge_qkv: Tensor,
    num_heads: int,
    rule: ScoreRule,
    dropout: float,
    need_weights: bool,
) -> AttentionOutput:
    """`_attend` with projected edges: queries, keys and values of every edge, [..., Nq, Nk, 3·H·D]."""
    size = query.shape[-1]
    weights = attention_weights(query, key, edge_qkv[..., : 2 * size], num_heads, rule)
    kept = F.dropout(weights, dropout) if dropout else weights
    edge_value = edge_qkv[..., 2 * size :].unflatten(-1, (num_heads, -1)).to(weights.dtype)  # [..., Nq, Nk, H, D]
    edge_part = (kept.unsqueeze(-1) * edge_value).sum(-3).movedim(-2, -3)  # [..., H, Nq, D]
    return AttentionOutput(_messages(kept, value, edge_part), weights.movedim(-1, -3) if need_weights else None)


def _messages(weights: Tensor, value: Tensor, edge_part: Tensor) -> Tensor:
    """Messages from the nodes' values [..., Nk, H·D] and the weighted sums of the edges' values, [..., H, Nq, D]."""
    by_head = weights.movedim(-1, -3)  # [..., H, Nq, Nk]
    values = value.unflatten(-1, (by_head.shape[-3], -1)).movedim(-2, -3)  # [..., H, Nk, D]
    node_part = by_head @ values.to(weights.dtype)
    return (node_part + edge_part).movedim(-3, -2).flatten(-2)


class RelationalAttention(nn.Module):
    r"""Relational attention with its projections: $q_{ij} = W_n^Q n_i + W_e^Q e_{ij}$, k and v likewise.

    `node_qkv` and `edge_qkv` hold the three projections of nodes and of edges, stacked in the order q, k, v. With
    `global_size` a vector of the whole graph is projected as well and added to every q, k and v (the paper's `att`).
    The output is the concatenation of the heads, without an output projection. `head_size` is node_size / num_heads if
    not given; `dropout` drops attention weights in training; `log_scaling_size` is that of `relational_attention`.

    A plain Linear is applied in pieces: `edge_qkv` computes queries and keys for every edge, but values once for
    each node, because $\sum_j a_{ij} W e_{ij} = W \sum_j a_{ij} e_{ij}$. A Linear that is wrapped or quantised, or
    has hooks, is called.

    Shapes: nodes [..., N, node_size], edges [..., N, N, edge_size] -> messages [..., N, num_heads·head_size].
    Cross-attention: pass the attended nodes as `context` [..., Nk, node_size], with edges [..., N, Nk, edge_size].

    >>> attention = RelationalAttention(node_size=32, edge_size=8, num_heads=4, head_size=16)
    >>> attention(torch.randn(2, 5, 32), torch.randn(2, 5, 5, 8)).messages.shape
    torch.Size([2, 5, 64])
    """

    def __init__(
        self,
        *,
        node_size: int,
        edge_size: int,
        num_heads: int,
        head_size: int | None = None,
        global_size: int = 0,
        dropout: float = 0.0,
        log_scaling_size: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_size(node_size=node_size, edge_size=edge_size, num_heads=num_heads)
        head_size = checked_head_size(head_size, node_size, num_heads)
        check_size_or_zero(global_size=global_size)
        check_number("dropout", dropout, below=1.0)
        check_log_scaling_size(log_scaling_size)
        check_place(device, dtype)
        self.node_size = node_size
        self.edge_size = edge_size
        self.num_heads = num_heads
        self.head_size = head_size
        self.global_size = global_size
        self.dropout = dropout
        self.log_scaling_size = log_scaling_size
        stacked, place = 3 * num_heads * head_size, {"device": device, "dtype": dtype}
        self.node_qkv = nn.Linear(node_size, stacked, **place)
        self.edge_qkv = nn.Linear(edge_size, stacked, **place)
        self.global_qkv = nn.Linear(global_size, stacked, **place) if global_size else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in (self.node_qkv, self.edge_qkv, self.global_qkv):
            if linear is not None:
                reset_linear(linear)

    @replaceable
    def forward(
        self,
        nodes: Tensor,
        edges: Tensor,
        *,
        context: Tensor | None = None,
        node_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
        globals: Tensor | None = None,
        need_weights: bool = False,
        checked: bool = False,
    ) -> AttentionOutput:
        """Attend from `nodes` to themselves, or to `context`; `node_mask` [..., Nk] is True for attended nodes that
        are present. Absent nodes and masked edges affect no message and no gradient, even if they are NaN. `checked`
        is for modules that call this one: they have checked all arguments, and masked values are finite.
        """
        if not checked:
            self._check(nodes, edges, context, node_mask, attention_mask, attention_bias, globals)
            check_flag(need_weights=need_weights)
        mask = attention_mask
        if node_mask is not None:
            present = node_mask.unsqueeze(-2)  # [..., 1, Nk]: absent nodes are not attended to
            mask = present if mask is None else mask & present
        read = None if checked else mask
        if read is not None:
            if context is None and node_mask is not None:
                read = read & node_mask.unsqueeze(-1)  # messages to absent nodes do not matter
            attends, is_attended = read.any(-1), read.any(-2)
            if context is None:
                nodes = present_nodes(nodes, attends | is_attended)
            else:
                nodes, context = present_nodes(nodes, attends), present_nodes(context, is_attended)

        # The biases of the edge (and global) projections act on every pair alike: add them to the nodes, N times
        # fewer than the edges.
        splits_edges = is_plain(self.edge_qkv)
        shared = self.edge_qkv.bias if splits_edges else nodes.new_zeros(3 * self.num_heads * self.head_size)
        if self.global_qkv is not None and globals is not None:
            shared = shared + self.global_qkv(globals).unsqueeze(-2)
        if context is None:
            query, key, value = (self.node_qkv(nodes) + shared).chunk(3, dim=-1)
        else:
            size = self.num_heads * self.head_size
            query = _some_channels(self.node_qkv, nodes, slice(None, size)) + shared[..., :size]
            key_value = _some_channels(self.node_qkv, context, slice(size, None)) + shared[..., size:]
            key, value = key_value.chunk(2, dim=-1)
        if read is not None:
            query, key, value, edges = _only_attended(query, key, value, edges, read)
        if attention_bias is not None and node_mask is not None and context is None:
            attention_bias = torch.where(node_mask[..., None, :, None], attention_bias, 0)  # columns are masked
        rule, dropout = ScoreRule(mask, attention_bias, self.log_scaling_size), self.dropout if self.training else 0.0
        if not splits_edges:
            return _attend_along(query, key, value, self.edge_qkv(edges), self.num_heads, rule, dropout, need_weights)
        return _attend(query, key, value, edges, self.edge_qkv.weight, self.num_heads, rule, dropout, need_weights)

    def _check(
        self,
        nodes: Tensor,
        edges: Tensor,
        context: Tensor | None,
        node_mask: Tensor | None,
        attention_mask: Tensor | None,
        attention_bias: Tensor | None,
        globals: Tensor | None,
    ) -> None:
        check_vectors("nodes", nodes, self.node_size, axes=2)
        if context is not None:
            check_vectors("context", context, self.node_size, axes=2)
        check_vectors("edges", edges, self.edge_size, axes=3)
        check_globals(globals, self.global_size, "an attention")
        num_queries, num_keys = nodes.shape[-2], (nodes if context is None else context).shape[-2]
        check_edges(edges, num_queries, num_keys)
        check_weights(self.node_qkv, nodes=nodes, context=context, edges=edges, globals=globals)
        check_mask("node_mask", node_mask, (num_keys,), nodes)
        check_mask("attention_mask", attention_mask, (num_queries, num_keys), nodes)
        check_bias(attention_bias, self.num_heads, num_queries, num_keys, nodes)
        check_batches(
            nodes=(nodes, 2),
            context=(context, 2),
            edges=(edges, 3),
            node_mask=(node_mask, 1),
            attention_mask=(attention_mask, 2),
            attention_bias=(attention_bias, 3),
            globals=(globals, 1),
        )

    def extra_repr(self) -> str:
        sizes = f"node_size={self.node_size}, edge_size={self.edge_size}, heads={self.num_heads}x{self.head_size}"
        sizes += f", global_size={self.global_size}" if self.global_size else ""
        return sizes + (f", dropout={self.dropout}" if self.dropout else "")


def _some_channels(linear: nn.Linear, vectors: Tensor, channels: slice) -> Tensor:
    """Some output channels of a Linear. The others are computed only if the module has to be called."""
    if is_plain(linear):
        return F.linear(vectors, linear.weight[channels], linear.bias[channels])
    return linear(vectors)[..., channels]


def _check_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Tensor,
    edge_weight: Tensor,
    num_heads: int,
    attention_mask: Tensor | None,
    attention_bias: Tensor | None,
) -> None:
    check_tensor("query", query, axes=2)
    size = query.shape[-1]
    check_positive(num_heads=num_heads)
    if size % num_heads:
        raise ValueError(f"num_heads must divide the {size} channels of query, got num_heads={shown(num_heads)}")
    check_vectors("key", key, size, axes=2)
    check_vectors("value", value, size, axes=2)
    if value.shape[-2] != key.shape[-2]:
        raise ValueError(f"value must have the {key.shape[-2]} nodes of key, got shape {list(value.shape)}")
    check_tensor("edges", edges, axes=3)
    check_edges(edges, query.shape[-2], key.shape[-2])
    check_tensor("edge_weight", edge_weight, axes=2)
    if edge_weight.dim() != 2 or edge_weight.shape[0] != 3 * size or edge_weight.shape[1] != edges.shape[-1]:
        raise ValueError(
            f"edge_weight must be [3 x {size}, {edges.shape[-1]}] (q, k and v of {edges.shape[-1]}-channel edges), "
            f"got shape {list(edge_weight.shape)}"
        )
    check_alike("query", query, key=key, value=value, edges=edges, edge_weight=edge_weight)
    check_mask("attention_mask", attention_mask, (query.shape[-2], key.shape[-2]), query)
    check_bias(attention_bias, num_heads, query.shape[-2], key.shape[-2], query)
    check_batches(
        query=(query, 2),
        key=(key, 2),
        value=(value, 2),
        edges=(edges, 3),
        attention_mask=(attention_mask, 2),
        attention_bias=(attention_bias, 3),
    )
