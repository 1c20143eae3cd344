"""The edge update as one operator of PyTorch: what `nn.edge_update` calls in place of the plain path."""

from typing import Any

import torch
from torch import Tensor

from relational_transformer.nn.kernels.edge_parameters import EdgeSums, hidden_width, sides_width
from relational_transformer.nn.kernels.seeds import differentiable, differentiable_once

NUM_PARAMETERS = 12
FEED_IN_BIAS, FEED_NORM_BIAS = 7, 11  # among the parameters; the backward pass reads neither


def edge_update(edges: Tensor, receivers: Tensor, senders: Tensor, *parameters: Tensor, eps: float = 1e-5) -> Tensor:
    """New edges [..., N, N, E]; arguments and equation as in `relational_transformer.nn.edge_update`."""
    if len(parameters) != NUM_PARAMETERS:
        raise TypeError(f"edge_update takes {NUM_PARAMETERS} parameters after senders, got {len(parameters)}.")
    if torch.is_autocast_enabled(edges.device.type):
        edges = edges.to(torch.get_autocast_dtype(edges.device.type))
    batch = torch.broadcast_shapes(edges.shape[:-3], *(tensor.shape[:-2] for tensor in (receivers, senders)))
    edges = edges.expand(*batch, *edges.shape[-3:])
    ends = (tensor.expand(*batch, *tensor.shape[-2:]) for tensor in (receivers, senders))
    output, *_ = update(
        edges.reshape(1, -1, *edges.shape[-3:]),
        *(tensor.reshape(1, -1, *tensor.shape[-2:]) for tensor in ends),
        *(parameter.unsqueeze(0) for parameter in parameters),
        eps,
        torch.is_grad_enabled(),
    )
    return output.reshape(edges.shape)


def both_weights(edge_weight: Tensor, reverse_weight: Tensor, dtype: torch.dtype) -> Tensor:
    """W_e and W_r, one below the other [S, 2 * M, E]: an edge is read once for itself and its reverse."""
    return torch.cat([edge_weight, reverse_weight], dim=1).to(dtype)


@torch.library.custom_op("relational_transformer::edge_update", mutates_args=())
def edge_update_operator(
    edges: Tensor,  # [S, G, N, N, E]
    receivers: Tensor,  # [S, G, N, M]
    senders: Tensor,  # [S, G, N, M]
    edge_weight: Tensor,  # [S, M, E]
    reverse_weight: Tensor,  # [S, M, E]
    out_weight: Tensor,  # [S, E, M]
    out_bias: Tensor,  # [S, E]
    norm_weight: Tensor,  # [S, E]
    norm_bias: Tensor,  # [S, E]
    feed_in_weight: Tensor,  # [S, F, E]
    feed_in_bias: Tensor,  # [S, F]
    feed_out_weight: Tensor,  # [S, E, F]
    feed_out_bias: Tensor,  # [S, E]
    feed_norm_weight: Tensor,  # [S, E]
    feed_norm_bias: Tensor,  # [S, E]
    eps: float,
    save: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    from relational_transformer.nn.kernels.edge_update_forward import edge_update_forward

    others = (
        out_weight,
        out_bias,
        norm_weight,
        norm_bias,
        feed_in_weight,
        feed_in_bias,
        feed_out_weight,
        feed_out_bias,
        feed_norm_weight,
        feed_norm_bias,
    )
    return edge_update_forward(
        edges.contiguous(),
        receivers.contiguous(),
        senders.contiguous(),
        both_weights(edge_weight, reverse_weight, edges.dtype),
        [tensor.contiguous() for tensor in others],
        eps,
        save,
    )


@edge_update_operator.register_fake
def _(edges: Tensor, receivers: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    *parameters, _, save = rest
    widths = (hidden_width(receivers.shape[-1], parameters[1 + FEED_IN_BIAS].shape[-1]), 4)
    hidden, statistics = (
        edges.new_empty((*edges.shape[:-1], width) if save else (edges.shape[0], 0), dtype=dtype)
        for width, dtype in zip(widths, (edges.dtype, torch.float32), strict=True)
    )
    return edges.new_empty(edges.shape), hidden, statistics


@torch.library.custom_op("relational_transformer::edge_update_backward", mutates_args=())
def edge_update_backward_operator(
    gradient: Tensor,
    edges: Tensor,
    hidden: Tensor,  # [S, G, N, N, K]
    statistics: Tensor,  # [S, G, N, N, 4]
    edge_weight: Tensor,
    reverse_weight: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    feed_in_weight: Tensor,
    feed_out_weight: Tensor,
    feed_out_bias: Tensor,
    feed_norm_weight: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from relational_transformer.nn.kernels.edge_update_backward import edge_update_backward

    others = (
        out_weight,
        out_bias,
        norm_weight,
        norm_bias,
        feed_in_weight,
        feed_out_weight,
        feed_out_bias,
        feed_norm_weight,
    )
    edge_gradient, ends, sums = edge_update_backward(
        gradient.contiguous(),
        edges.contiguous(),
        hidden.contiguous(),
        statistics.contiguous(),
        both_weights(edge_weight, reverse_weight, edges.dtype),
        *(tensor.contiguous() for tensor in others),
    )
    return edge_gradient, ends, sums.products, sums.within


@edge_update_backward_operator.register_fake
def _(gradient: Tensor, edges: Tensor, hidden: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    seeds, graphs, nodes, _, edge_size = edges.shape
    message_size, feed_size = rest[3].shape[-1], rest[8].shape[-1]
    shapes = (
        (seeds, graphs, nodes, 2 * message_size),
        (seeds, 2 * hidden.shape[-1] + sides_width(message_size, feed_size), edge_size),
        (seeds, 3 * edge_size + feed_size * (message_size + 2)),
    )
    return edges.new_empty(edges.shape), *(edges.new_empty(shape, dtype=torch.float32) for shape in shapes)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    edges, receivers, senders, *parameters, _, _ = inputs
    ctx.end_dtypes = receivers.dtype, senders.dtype
    ctx.save_for_backward(edges, *output[1:], *parameters)


def _differentiate(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    edges, hidden, statistics, *parameters = ctx.saved_tensors
    read = [parameter for index, parameter in enumerate(parameters) if index not in (FEED_IN_BIAS, FEED_NORM_BIAS)]
    edge_gradient, ends, *sums = update_backward(gradient, edges, hidden, statistics, *read)
    _, _, out_weight, *others = read
    gradients = EdgeSums(*sums).gradients(out_weight.to(edges.dtype), *others[:4])
    return (
        edge_gradient,
        *(end.to(dtype) for end, dtype in zip(ends.chunk(2, dim=-1), ctx.end_dtypes, strict=True)),
        *(part.to(parameter.dtype) for part, parameter in zip(gradients, parameters, strict=True)),
        None,
        None,
    )


update = differentiable(edge_update_operator, _save, _differentiate)
update_backward = differentiable_once(edge_update_backward_operator)
