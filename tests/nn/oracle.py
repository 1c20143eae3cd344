"""The paper's equations, one edge at a time: slow, literal, in float64. What everything else is measured against."""

import math

import torch
from torch import Tensor

from relational_transformer.nn import EdgeUpdate, RelationalAttention, RelationalTransformer, RelationalTransformerLayer


def linear(vector: Tensor, module: torch.nn.Linear) -> Tensor:
    return module.weight @ vector + module.bias


def layer_norm(vector: Tensor, module: torch.nn.LayerNorm) -> Tensor:
    mean = vector.sum() / len(vector)
    variance = ((vector - mean) ** 2).sum() / len(vector)
    return (vector - mean) / torch.sqrt(variance + 1e-5) * module.weight + module.bias


def joined_weights(attention: RelationalAttention) -> list[tuple[Tensor, Tensor]]:
    """W^Q, W^K, W^V of Eq. 1, acting on [node, edge (, globals)], with their biases."""
    parts = [attention.node_qkv, attention.edge_qkv] + ([attention.global_qkv] if attention.global_qkv else [])
    weight = torch.cat([part.weight for part in parts], dim=1)
    bias = torch.stack([part.bias for part in parts]).sum(0)
    return list(zip(weight.chunk(3), bias.chunk(3), strict=True))


def attend(
    attention: RelationalAttention,
    nodes: Tensor,
    edges: Tensor,
    mask: Tensor | None = None,
    context: Tensor | None = None,
    globals: Tensor | None = None,
) -> Tensor:
    """Messages to every node of one graph; nodes [N, d_n], edges [N, Nk, d_e]."""
    context = nodes if context is None else context
    whole = [] if globals is None else [globals]
    (query_w, query_b), (key_w, key_b), (value_w, value_b) = joined_weights(attention)
    messages = []
    for i in range(len(nodes)):
        message = torch.zeros(attention.num_heads * attention.head_size, dtype=nodes.dtype)
        neighbours = [j for j in range(len(context)) if mask is None or mask[i, j]]
        for head in range(attention.num_heads):
            rows = slice(head * attention.head_size, (head + 1) * attention.head_size)
            scores, values = [], []
            for j in neighbours:
                query = query_w[rows] @ torch.cat([nodes[i], edges[i, j], *whole]) + query_b[rows]
                key = key_w[rows] @ torch.cat([context[j], edges[i, j], *whole]) + key_b[rows]
                values.append(value_w[rows] @ torch.cat([context[j], edges[i, j], *whole]) + value_b[rows])
                scores.append(torch.dot(query, key) / math.sqrt(attention.head_size))
            if neighbours:
                exponentials = [torch.exp(score - max(scores)) for score in scores]
                total = sum(exponentials)
                for exponential, value in zip(exponentials, values, strict=True):
                    message = message + torch.cat(
                        [
                            torch.zeros(rows.start, dtype=nodes.dtype),
                            exponential / total * value,
                            torch.zeros(len(message) - rows.stop, dtype=nodes.dtype),
                        ]
                    )
        messages.append(message)
    return torch.stack(messages)


def update_edges(update: EdgeUpdate, edges: Tensor, nodes: Tensor, globals: Tensor | None = None) -> Tensor:
    whole = [] if globals is None else [globals]
    rows = []
    for i in range(len(nodes)):
        row = []
        for j in range(len(nodes)):
            neighbours = torch.cat([edges[i, j], edges[j, i], nodes[j], nodes[i], *whole])
            message = linear(neighbours, update.message_in).relu()
            middle = layer_norm(linear(message, update.message_out) + edges[i, j], update.norm)
            hidden = linear(middle, update.feed_forward_in).relu()
            row.append(layer_norm(linear(hidden, update.feed_forward_out) + middle, update.feed_forward_norm))
        rows.append(torch.stack(row))
    return torch.stack(rows)


def run_layer(
    layer: RelationalTransformerLayer,
    nodes: Tensor,
    edges: Tensor,
    mask: Tensor | None = None,
    globals: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One layer on one graph: nodes [N, d_n], edges [N, N, d_e], mask [N, N]."""
    updated = []
    for node, message in zip(nodes, attend(layer.attention, nodes, edges, mask, globals=globals), strict=True):
        middle = layer_norm(linear(message, layer.node_output) + node, layer.node_norm)
        hidden = linear(middle, layer.node_feed_forward_in).relu()
        updated.append(layer_norm(linear(hidden, layer.node_feed_forward_out) + middle, layer.node_feed_forward_norm))
    nodes = torch.stack(updated)
    if layer.edge_update is not None:
        edges = update_edges(layer.edge_update, edges, nodes, globals)
    return nodes, edges


def run_stack(
    model: RelationalTransformer, nodes: Tensor, edges: Tensor, globals: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The whole model on one graph, by mode of the global vector."""
    joined = [globals] if globals is not None and model.global_mode == "cat" else []
    inside = torch.stack([linear(torch.cat([node, *joined]), model.node_input) for node in nodes])
    between = torch.stack(
        [torch.stack([linear(torch.cat([edge, *joined]), model.edge_input) for edge in row]) for row in edges]
    )
    if model.global_input is not None:
        inside = torch.cat([linear(globals, model.global_input)[None], inside])
        framed = torch.zeros(len(inside), len(inside), between.shape[-1], dtype=between.dtype)
        framed[1:, 1:] = between
        between = framed
    for layer in model.layers:
        inside, between = run_layer(layer, inside, between, globals=globals if model.global_mode == "att" else None)
    if model.global_input is not None:
        return inside[1:], between[1:, 1:], inside[0]
    return inside, between, None
