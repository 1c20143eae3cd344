"""The edge update as one operator of PyTorch: what `nn.edge_update` calls in place of the plain path."""

from typing import Any

import torch
from torch import Tensor

from relational_transformer.nn.kernels.edge_parameters import PackedGradients
from relational_transformer.nn.kernels.seeds import register_seed_axis

NUM_PARAMETERS = 12
FEED_IN_BIAS = 7


def edge_update(edges: Tensor, receivers: Tensor, senders: Tensor, *parameters: Tensor, eps: float = 1e-5) -> Tensor:
    """New edges [..., N, N, E]; arguments and equation as in `relational_transformer.nn.edge_update`."""
    if len(parameters) != NUM_PARAMETERS:
        raise TypeError(f"edge_update takes {NUM_PARAMETERS} parameters after senders, got {len(parameters)}.")
    if torch.is_autocast_enabled(edges.device.type):
        edges = edges.to(torch.get_autocast_dtype(edges.device.type))
    batch = edges.shape[:-3]
    ends = (tensor.expand(*batch, *tensor.shape[-2:]) for tensor in (receivers, senders))
    output = edge_update_operator(
        edges.reshape(1, -1, *edges.shape[-3:]),
        *(tensor.reshape(1, -1, *tensor.shape[-2:]) for tensor in ends),
        *(parameter.unsqueeze(0) for parameter in parameters),
        eps,
    )
    return output.reshape(edges.shape)


def laid_out(parameters: tuple[Tensor, ...]) -> list[Tensor]:
    """Contiguous parameters, but the first two, slices of a wider weight, only along their rows."""
    own, reverse, *others = parameters
    slices = [weight if weight.stride(-1) == 1 else weight.contiguous() for weight in (own, reverse)]
    return slices + [parameter.contiguous() for parameter in others]


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
) -> Tensor:
    from relational_transformer.nn.kernels.edge_update_forward import edge_update_forward

    parameters = laid_out(
        (
            edge_weight,
            reverse_weight,
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
    )
    return edge_update_forward(edges.contiguous(), receivers.contiguous(), senders.contiguous(), parameters, eps)


@edge_update_operator.register_fake
def _(edges: Tensor, *_: Any) -> Tensor:
    return edges.new_empty(edges.shape)


@torch.library.custom_op("relational_transformer::edge_update_backward", mutates_args=())
def edge_update_backward_operator(
    gradient: Tensor,
    edges: Tensor,
    receivers: Tensor,
    senders: Tensor,
    edge_weight: Tensor,
    reverse_weight: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    feed_in_weight: Tensor,
    feed_in_bias: Tensor,
    feed_out_weight: Tensor,
    feed_out_bias: Tensor,
    feed_norm_weight: Tensor,
    feed_norm_bias: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from relational_transformer.nn.kernels.edge_update_backward import edge_update_backward

    parameters = laid_out(
        (
            edge_weight,
            reverse_weight,
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
    )
    return edge_update_backward(
        gradient.contiguous(), edges.contiguous(), receivers.contiguous(), senders.contiguous(), parameters, eps
    )


def packing(edges: Tensor, receivers: Tensor, feed_in_bias: Tensor) -> PackedGradients:
    return PackedGradients(edges.shape[-1], receivers.shape[-1], feed_in_bias.shape[-1])


@edge_update_backward_operator.register_fake
def _(gradient: Tensor, edges: Tensor, receivers: Tensor, senders: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    columns = packing(edges, receivers, rest[FEED_IN_BIAS]).columns
    packed = edges.new_empty(edges.shape[0], edges.shape[-1] + 1, columns, dtype=torch.float32)
    ends = receivers.new_empty(receivers.shape), senders.new_empty(senders.shape)
    return edges.new_empty(edges.shape), *ends, packed


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.eps = inputs
    ctx.save_for_backward(*tensors)


def _differentiate(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    edges, receivers, senders, *parameters = ctx.saved_tensors
    *gradients, packed = edge_update_backward_operator(gradient, *ctx.saved_tensors, ctx.eps)
    unpacked = packing(edges, receivers, parameters[FEED_IN_BIAS]).unpack(packed)
    cast = (part.to(parameter.dtype) for part, parameter in zip(unpacked, parameters, strict=True))
    return *gradients, *cast, None


torch.library.register_autograd(edge_update_operator, _differentiate, setup_context=_save)
register_seed_axis(edge_update_operator)
register_seed_axis(edge_update_backward_operator)
