"""Relational attention as one operator of PyTorch: what `nn.attention` calls in place of the plain path."""

from typing import Any

import torch
from torch import Tensor

from relational_transformer.nn.kernels.seeds import differentiable, differentiable_once


def relational_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Tensor,
    edge_weight: Tensor,
    *,
    num_heads: int,
    attention_mask: Tensor | None = None,
) -> Tensor:
    """Messages [..., NQ, H * D]; arguments and equation as in `relational_transformer.nn.relational_attention`."""
    if torch.is_autocast_enabled(edges.device.type):
        dtype = torch.get_autocast_dtype(edges.device.type)
        query, key, value, edges = (tensor.to(dtype) for tensor in (query, key, value, edges))
    batch = torch.broadcast_shapes(edges.shape[:-3], *(tensor.shape[:-2] for tensor in (query, key, value)))
    edges = edges.expand(*batch, *edges.shape[-3:])
    queries, keys = edges.shape[-3:-1]
    if attention_mask is not None:
        attention_mask = one_seed(attention_mask.expand(*batch, queries, keys), 2)
    nodes = (tensor.expand(*batch, *tensor.shape[-2:]) for tensor in (query, key, value))
    messages, _, _ = attention(
        *(one_seed(tensor, 2) for tensor in nodes),
        one_seed(edges, 3),
        edge_weight.unsqueeze(0),
        attention_mask,
        num_heads,
    )
    return messages.reshape(*batch, queries, messages.shape[-1])


def one_seed(tensor: Tensor, kept: int) -> Tensor:
    """[..., kept axes] -> [S = 1, G, kept axes], all batch axes in one."""
    return tensor.reshape(1, -1, *tensor.shape[tensor.dim() - kept :])


def row_strided(tensor: Tensor) -> Tensor:
    """The tensor itself where its rows follow each other at one stride (a slice of packed q, k, v), else a copy."""
    _, graphs, nodes, width = tensor.shape
    row = tensor.stride(2)
    if tensor.stride() == (graphs * nodes * row, nodes * row, row, 1) and row >= width:
        return tensor
    return tensor.contiguous()


@torch.library.custom_op("relational_transformer::attention", mutates_args=())
def attention_operator(
    query: Tensor,  # [S, G, NQ, H * D]
    key: Tensor,  # [S, G, NK, H * D]
    value: Tensor,  # [S, G, NK, H * D]
    edges: Tensor,  # [S, G, NQ, NK, E]
    weight: Tensor,  # [S, 3 * H * D, E]
    mask: Tensor | None,  # [S, G, NQ, NK]
    num_heads: int,
) -> tuple[Tensor, Tensor, Tensor]:
    from relational_transformer.nn.kernels.attention_forward import attention_forward

    return attention_forward(
        row_strided(query),
        row_strided(key),
        row_strided(value),
        edges.contiguous(),
        weight.contiguous(),
        mask,
        num_heads,
    )


@attention_operator.register_fake
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    num_heads: int,
) -> tuple[Tensor, Tensor, Tensor]:
    seeds, graphs, queries, _, edge_size = edges.shape
    heads = (seeds, graphs, queries, num_heads)
    log_sum = query.new_empty(heads, dtype=torch.float32)
    return query.new_empty(query.shape), log_sum, edges.new_empty((*heads, edge_size))


@torch.library.custom_op("relational_transformer::attention_backward", mutates_args=())
def attention_backward_operator(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    messages: Tensor,
    log_sum: Tensor,
    context: Tensor,
    num_heads: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    from relational_transformer.nn.kernels import attention_backward

    return attention_backward.attention_backward(
        gradient.contiguous(),
        row_strided(query),
        row_strided(key),
        row_strided(value),
        edges.contiguous(),
        weight.contiguous(),
        mask,
        messages.contiguous(),
        log_sum.contiguous(),
        context.contiguous(),
        num_heads,
    )


@attention_backward_operator.register_fake
def _(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Tensor,
    weight: Tensor,
    *_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    query, key, value, edges, weight = (tensor.new_empty(tensor.shape) for tensor in (query, key, value, edges, weight))
    return query, key, value, edges, weight


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    query, key, value, edges, weight, mask, ctx.num_heads = inputs
    ctx.save_for_backward(query, key, value, edges, weight, mask, *output)


def _differentiate(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    gradients = attention_backward(gradient, *ctx.saved_tensors, ctx.num_heads)
    return *gradients, None, None


attention = differentiable(attention_operator, _save, _differentiate)
attention_backward = differentiable_once(attention_backward_operator)
