"""Relational attention over a list of edges, in memory proportional to it."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relational_transformer.nn.checks import check_alike, check_positive, check_tensor, check_vectors, shown

from .checks import check_edge_index, check_rows
from .edge_chunks import ChunkedAttention, runs_in_chunks


class SparseAttentionOutput(NamedTuple):
    """`messages` [N, H·D] of the nodes, `weights` [E, H] of the edges; a node's weights add up to one.

    >>> nodes, edge_index = torch.randn(3, 8), torch.tensor([[0, 1, 2], [2, 2, 0]])  # two edges lead to node 2
    >>> edges, weight = torch.randn(3, 4), torch.randn(24, 4)
    >>> output = sparse_relational_attention(nodes, nodes, nodes, edge_index, edges, weight, num_heads=2)
    >>> torch.allclose(output.weights[0] + output.weights[1], torch.ones(2))
    True
    """

    messages: Tensor
    weights: Tensor


def sparse_relational_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edge_index: Tensor,
    edges: Tensor,
    edge_weight: Tensor,
    *,
    num_heads: int,
) -> SparseAttentionOutput:
    r"""`relational_attention` in which node i attends along the edges that lead to it, and to nothing else.

    $$\text{message}_i =
    \sum_{j \to i} \text{softmax}_{j \to i}\!\left(\frac{q_{ij} \cdot k_{ij}}{\sqrt{D}}\right) v_{ij}$$

    $$q_{ij} = q_i + W_e^Q e_{ij} \quad k_{ij} = k_j + W_e^K e_{ij} \quad v_{ij} = v_j + W_e^V e_{ij}$$

    Parallel edges take part one by one. A node to which no edge leads receives zeros.

    Args:
        query: [N, H·D], with every bias already added, as are `key` and `value`.
        key: [N, H·D].
        value: [N, H·D].
        edge_index: PyG's (source j, target i), [2, E].
        edges: $e_{ij}$, [E, edge_size].
        edge_weight: $W_e^Q, W_e^K, W_e^V$ stacked, [3·H·D, edge_size].
        num_heads: H.

    >>> nodes, edge_index = torch.randn(3, 8), torch.tensor([[0, 1, 1], [1, 0, 2]])
    >>> out = sparse_relational_attention(
    ...     nodes, nodes, nodes, edge_index, torch.randn(3, 5), torch.randn(24, 5), num_heads=2
    ... )
    >>> out.messages.shape, out.weights.tolist()  # each node hears from one other
    (torch.Size([3, 8]), [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    """
    check_tensor("query", query, axes=2)
    check_edge_index(edge_index, query.shape[0], "query", query)
    size = query.shape[-1]
    for name, nodes in {"query": query, "key": key, "value": value}.items():
        check_vectors(name, nodes, size, axes=2)
        check_rows(name, nodes, query.shape[0], "nodes")
    check_positive(num_heads=num_heads)
    if size % num_heads:
        raise ValueError(f"num_heads must divide the {size} channels of query, got num_heads={shown(num_heads)}")
    check_tensor("edges", edges, axes=2)
    check_rows("edges", edges, edge_index.shape[1], "edges")
    check_tensor("edge_weight", edge_weight, axes=2)
    if list(edge_weight.shape) != [3 * size, edges.shape[-1]]:
        raise ValueError(f"edge_weight must be [3 x {size}, {edges.shape[-1]}], got shape {list(edge_weight.shape)}")
    check_alike("query", query, key=key, value=value, edges=edges, edge_weight=edge_weight)
    return _attend(query, key, value, edges, edge_weight, edge_index.long(), num_heads)


class SparseAttention(nn.Module):
    """`attend_along_edges` as a module without parameters, so that `record_attention` sees its weights.

    >>> attention, edge_index = SparseAttention(num_heads=2), torch.tensor([[0, 1], [2, 2]])
    >>> attention(torch.zeros(3, 8), torch.zeros(3, 8), torch.zeros(3, 8), torch.zeros(2, 24), edge_index).weights
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """

    gives_attention_weights = True

    def __init__(self, num_heads: int, dropout: float = 0.0, log_scaling_size: int | None = None) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout = dropout
        self.log_scaling_size = log_scaling_size

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        edges: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        need_weights: bool = True,
    ) -> SparseAttentionOutput:
        """`edges` are vectors [E, edge_size] for `edge_weight`, or their queries, keys and values [E, 3·H·D] already.

        `need_weights` is there since `record_attention` asks for it; the weights are always given.
        """
        dropout = self.dropout if self.training else 0.0
        if edge_weight is not None and not dropout and self.log_scaling_size is None:
            return _attend(query, key, value, edges, edge_weight, edge_index, self.num_heads)
        edge_qkv = edges if edge_weight is None else F.linear(edges, edge_weight)
        return attend_along_edges(
            query, key, value, edge_qkv, edge_index, self.num_heads, dropout, self.log_scaling_size
        )

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}"


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Tensor,
    edge_weight: Tensor,
    edge_index: Tensor,
    num_heads: int,
) -> SparseAttentionOutput:
    """`sparse_relational_attention` of what is known to fit, between two lists of nodes."""
    if runs_in_chunks(query, key, value, edges, edge_weight) and edges.shape[0]:
        return SparseAttentionOutput(
            *ChunkedAttention.apply(query, key, value, edges, edge_weight, edge_index, num_heads)
        )
    return attend_along_edges(query, key, value, F.linear(edges, edge_weight), edge_index, num_heads)


def attend_along_edges(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edge_qkv: Tensor,
    edge_index: Tensor,
    num_heads: int,
    dropout: float = 0.0,
    log_scaling_size: int | None = None,
) -> SparseAttentionOutput:
    """The same, of the queries, keys and values of edges [E, 3·H·D]. `query` [Nq, H·D] is of the nodes that hear, `key`
    and `value` [Nk, H·D] are of those they hear from; `dropout` and `log_scaling_size` as in `relational_attention`,
    where n is the number of edges that lead to a node."""
    source, target = edge_index
    edge_query, edge_key, edge_value = edge_qkv.chunk(3, dim=-1)  # [E, H·D] each
    num_nodes, head_size = query.shape[0], query.shape[1] // num_heads
    products = (query.index_select(0, target) + edge_query) * (key.index_select(0, source) + edge_key)
    # Scores and softmax in float32 at least, as in the dense attention.
    precise = torch.promote_types(products.dtype, torch.float32)
    scores = products.unflatten(-1, (num_heads, head_size)).sum(-1, dtype=precise) * head_size**-0.5  # [E, H]
    if log_scaling_size is not None:
        heard = scores.new_zeros(num_nodes).index_add(0, target, torch.ones_like(scores[:, 0])).clamp_min(1)
        scores = scores * (heard.log() / math.log(log_scaling_size)).index_select(0, target).unsqueeze(-1)
    weights = softmax_by_target(scores, target, num_nodes).to(products.dtype)
    kept = F.dropout(weights, dropout) if dropout else weights
    values = value.index_select(0, source) + edge_value
    values = values.unflatten(-1, (num_heads, head_size)) * kept.unsqueeze(-1)
    messages = values.new_zeros(num_nodes, num_heads * head_size).index_add(0, target, values.flatten(1))
    return SparseAttentionOutput(messages, weights)


def softmax_by_target(scores: Tensor, target: Tensor, num_nodes: int) -> Tensor:
    """Softmax of scores [E, H] over the edges that share a target [E].

    >>> softmax_by_target(torch.zeros(3, 1), torch.tensor([0, 1, 1]), num_nodes=4).squeeze(1).tolist()
    [1.0, 0.5, 0.5]
    """
    rows = target.unsqueeze(-1).expand_as(scores)
    # Taking away the maximum changes no weight, so it needs no gradient.
    largest = scores.new_full((num_nodes, scores.shape[1]), -torch.inf)
    largest = largest.scatter_reduce(0, rows, scores.detach(), reduce="amax")
    exponentials = (scores - largest.index_select(0, target)).exp()
    totals = torch.zeros_like(largest).index_add(0, target, exponentials)
    return exponentials / totals.index_select(0, target)
