"""The paper's equations, one edge at a time: slow, literal, in float64. What everything else is measured against."""

import math

import torch
from torch import Tensor

from relational_transformer.nn import (
    EdgeUpdate,
    LayerOptions,
    RelationalAttention,
    RelationalTransformer,
    RelationalTransformerLayer,
)


def linear(vector: Tensor, module: torch.nn.Linear) -> Tensor:
    return module.weight @ vector + module.bias


def normalise(vector: Tensor, module: torch.nn.LayerNorm | torch.nn.RMSNorm) -> Tensor:
    if isinstance(module, torch.nn.RMSNorm):
        return vector / torch.sqrt((vector**2).sum() / len(vector) + 1e-5) * module.weight
    mean = vector.sum() / len(vector)
    variance = ((vector - mean) ** 2).sum() / len(vector)
    return (vector - mean) / torch.sqrt(variance + 1e-5) * module.weight + module.bias


def activate(hidden: Tensor, options: LayerOptions) -> Tensor:
    if options.activation == "swiglu":
        half = len(hidden) // 2
        return hidden[:half] / (1 + torch.exp(-hidden[:half])) * hidden[half:]
    if options.activation == "gelu":
        return hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2
    return hidden.relu()


def add_and_norm(vector: Tensor, change: Tensor, norm: torch.nn.Module, options: LayerOptions) -> Tensor:
    """A residual; where norms come first, the sum has none."""
    return vector + change if options.pre_norm else normalise(vector + change, norm)


def feed_forward(vector: Tensor, first: torch.nn.Linear, second: torch.nn.Linear, options: LayerOptions) -> Tensor:
    return linear(activate(linear(vector, first), options), second)


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
    bias: Tensor | None = None,
) -> Tensor:
    """Messages to every node of one graph; nodes [N, d_n], edges [N, Nk, d_e], bias [H, N, Nk]."""
    context = nodes if context is None else context
    whole, scaled_at = [] if globals is None else [globals], attention.log_scaling_size
    (query_w, query_b), (key_w, key_b), (value_w, value_b) = joined_weights(attention)
    messages = []
    for i in range(len(nodes)):
        message = torch.zeros(attention.num_heads * attention.head_size, dtype=nodes.dtype)
        neighbours = [j for j in range(len(context)) if mask is None or mask[i, j]]
        for head in range(attention.num_heads):
            rows = slice(head * attention.head_size, (head + 1) * attention.head_size)
            scores, values = [], []
            heard = [j for j in neighbours if bias is None or bias[head, i, j] != -math.inf]
            for j in heard:
                query = query_w[rows] @ torch.cat([nodes[i], edges[i, j], *whole]) + query_b[rows]
                key = key_w[rows] @ torch.cat([context[j], edges[i, j], *whole]) + key_b[rows]
                values.append(value_w[rows] @ torch.cat([context[j], edges[i, j], *whole]) + value_b[rows])
                extra = 0.0 if bias is None else bias[head, i, j]
                sharper = 1.0 if scaled_at is None else math.log(len(heard)) / math.log(scaled_at)
                scores.append(torch.dot(query, key) / math.sqrt(attention.head_size) * sharper + extra)
            if heard:
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
    whole, options = [] if globals is None else [globals], update.options
    read, ends = edges, nodes
    if options.pre_norm:
        read = torch.stack([torch.stack([normalise(edge, update.norm) for edge in row]) for row in edges])
        ends = torch.stack([normalise(node, update.node_norm) for node in nodes])
    rows = []
    for i in range(len(nodes)):
        row = []
        for j in range(len(nodes)):
            neighbours = torch.cat([read[i, j], read[j, i], ends[j], ends[i], *whole])
            change = feed_forward(neighbours, update.message_in, update.message_out, options)
            middle = add_and_norm(edges[i, j], change, update.norm, options)
            heard = normalise(middle, update.feed_forward_norm) if options.pre_norm else middle
            change = feed_forward(heard, update.feed_forward_in, update.feed_forward_out, options)
            row.append(add_and_norm(middle, change, update.feed_forward_norm, options))
        rows.append(torch.stack(row))
    return torch.stack(rows)


def run_layer(
    layer: RelationalTransformerLayer,
    nodes: Tensor,
    edges: Tensor,
    mask: Tensor | None = None,
    globals: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One layer on one graph: nodes [N, d_n], edges [N, N, d_e], mask [N, N], bias [H, N, N]."""
    options, read, along = layer.options, nodes, edges
    if options.pre_norm:
        read = torch.stack([normalise(node, layer.node_norm) for node in nodes])
        along = torch.stack([torch.stack([normalise(edge, layer.attended_edge_norm) for edge in row]) for row in edges])
    updated = []
    messages = attend(layer.attention, read, along, mask, globals=globals, bias=bias)
    for node, message in zip(nodes, messages, strict=True):
        middle = add_and_norm(node, linear(message, layer.node_output), layer.node_norm, options)
        heard = normalise(middle, layer.node_feed_forward_norm) if options.pre_norm else middle
        change = feed_forward(heard, layer.node_feed_forward_in, layer.node_feed_forward_out, options)
        updated.append(add_and_norm(middle, change, layer.node_feed_forward_norm, options))
    nodes = torch.stack(updated)
    if layer.edge_update is not None:
        edges = update_edges(layer.edge_update, edges, nodes, globals)
    return nodes, edges


def run_stack(
    model: RelationalTransformer,
    nodes: Tensor,
    edges: Tensor,
    globals: Tensor | None = None,
    bias: Tensor | None = None,
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
        if bias is not None:
            framed = torch.zeros(len(bias), len(inside), len(inside), dtype=between.dtype)
            framed[:, 1:, 1:] = bias
            bias = framed
    for layer in model.layers:
        whole = globals if model.global_mode == "att" else None
        inside, between = run_layer(layer, inside, between, globals=whole, bias=bias)
    if model.options.pre_norm:
        inside = torch.stack([normalise(node, model.node_output_norm) for node in inside])
        between = torch.stack(
            [torch.stack([normalise(edge, model.edge_output_norm) for edge in row]) for row in between]
        )
    if model.global_input is not None:
        return inside[1:], between[1:, 1:], inside[0]
    return inside, between, None
