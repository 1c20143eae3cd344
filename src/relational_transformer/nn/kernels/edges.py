r"""The edge update as one operator of PyTorch, forward: what `nn.edge_update` calls in place of the plain path.

$$m_{ij} = \text{ReLU}(W_e e_{ij} + W_r e_{ji} + r_i + s_j) \qquad
z_{ij} = W_5 m_{ij} + b_5 + e_{ij} \qquad u_{ij} = \text{LayerNorm}(z_{ij})$$

$$f_{ij} = \text{ReLU}(W_6 u_{ij} + b_6) \qquad y_{ij} = W_7 f_{ij} + b_7 + u_{ij} \qquad
e'_{ij} = \text{LayerNorm}(y_{ij})$$

One product of cuBLAS makes what an edge says to itself and to its reverse; one kernel does the rest. On request, one
kernel by rows (`rows/`) does all.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels.edge_parameters import hidden_width, parameter_gradients
from relational_transformer.nn.kernels.edge_tiles import (
    affine,
    before_norm,
    both_weights,
    edge_ends,
    edge_sizes,
    in_float,
    load_vector,
    load_wide,
    moments,
    plus_feed,
    standardise,
)
from relational_transformer.nn.kernels.edges_backward import edge_update_backward
from relational_transformer.nn.kernels.rows import takes_edge_update
from relational_transformer.nn.kernels.rows.edges import update_edge_rows
from relational_transformer.nn.kernels.seeds import differentiable
from relational_transformer.nn.kernels.tiles import load_rows, one_warp, programs_at_once, store_chunk, store_rows

REGISTERS = 168
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
        takes_edge_update(edges, receivers, senders, parameters[FEED_IN_BIAS], eps),
    )
    return output.reshape(edges.shape)


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
    by_rows: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """New edges [S, G, N, N, E].

    With `save`, also what the backward pass needs: both hidden layers and a one, h = (m, f, 1, 0 ...) [..., K], and the
    mean and 1 / std of both LayerNorms [..., 4]; otherwise these are empty.
    """
    edges, receivers, senders = edges.contiguous(), receivers.contiguous(), senders.contiguous()
    sizes = edge_sizes(edges, receivers.shape[-1], feed_in_bias.shape[-1])
    output = torch.empty_like(edges)
    hidden, statistics = _kept(edges, sizes.message_size, sizes.feed_size, save)
    if edges.numel() == 0:
        return output, hidden, statistics
    if by_rows:
        parameters = edge_weight, reverse_weight, out_weight, out_bias, norm_weight, norm_bias, feed_in_weight
        parameters += feed_in_bias, feed_out_weight, feed_out_bias, feed_norm_weight, feed_norm_bias
        update_edge_rows(edges, receivers, senders, parameters, output, (hidden, statistics) if save else None)
        return output, hidden, statistics
    out_weight, feed_in_weight, feed_out_weight = (
        weight.contiguous().to(edges.dtype) for weight in (out_weight, feed_in_weight, feed_out_weight)
    )
    out_bias, norm_weight, norm_bias, feed_out_bias, feed_norm_weight, feed_norm_bias = in_float(
        out_bias, norm_weight, norm_bias, feed_out_bias, feed_norm_weight, feed_norm_bias
    )
    edge_update_forward_kernel[(sizes.programs(programs_at_once(REGISTERS)), sizes.seeds)](
        edges, torch.bmm(edges.flatten(1, 3), both_weights(edge_weight, reverse_weight, edges.dtype).mT),
        receivers, senders,
        out_weight, out_bias, norm_weight, norm_bias, feed_in_weight, feed_in_bias.contiguous(),
        feed_out_weight, feed_out_bias, feed_norm_weight, feed_norm_bias,
        output, hidden, statistics, sizes.rows, sizes.nodes, eps,
        SAVE=save, **sizes.constants(), **one_warp(REGISTERS),
    )  # fmt: skip
    return output, hidden, statistics


@edge_update_operator.register_fake
def _(edges: Tensor, receivers: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    *parameters, _, save, _ = rest
    feed_in_bias = parameters[1 + FEED_IN_BIAS]
    return edges.new_empty(edges.shape), *_kept(edges, receivers.shape[-1], feed_in_bias.shape[-1], save)


def _kept(edges: Tensor, message_size: int, feed_size: int, save: bool) -> tuple[Tensor, Tensor]:
    """Room for hidden layers and statistics, [S, 0] each where they are not saved."""
    hidden, statistics = (
        edges.new_empty((*edges.shape[:-1], width) if save else (edges.shape[0], 0), dtype=dtype)
        for width, dtype in ((hidden_width(message_size, feed_size), edges.dtype), (4, torch.float32))
    )
    return hidden, statistics


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    edges, receivers, senders, *parameters, _, _, ctx.by_rows = inputs
    ctx.end_dtypes = receivers.dtype, senders.dtype
    ctx.save_for_backward(edges, *output[1:], *parameters)


def _differentiate(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    edges, hidden, statistics, *parameters = ctx.saved_tensors
    read = [parameter for index, parameter in enumerate(parameters) if index not in (FEED_IN_BIAS, FEED_NORM_BIAS)]
    edge_gradient, ends, products, within = edge_update_backward(
        gradient, edges, hidden, statistics, *read, ctx.by_rows
    )
    _, _, out_weight, *others = read
    gradients = parameter_gradients(products, within, out_weight.to(edges.dtype), *others[:4])
    return (
        edge_gradient,
        *(end.to(dtype) for end, dtype in zip(ends.chunk(2, dim=-1), ctx.end_dtypes, strict=True)),
        *(part.to(parameter.dtype) for part, parameter in zip(gradients, parameters, strict=True)),
        None,
        None,
        None,
    )


update = differentiable(edge_update_operator, _save, _differentiate)


@triton.jit
def edge_update_forward_kernel(
    edges,  # [S, R, E]
    halves,  # [S, R, 2 * M]
    receivers,  # [S, G * N, M]
    senders,  # [S, G * N, M]
    out_weight,  # [S, E, M]
    out_bias,  # [S, E]
    norm_weight,  # [S, E]
    norm_bias,  # [S, E]
    feed_in_weight,  # [S, F, E]
    feed_in_bias,  # [S, F]
    feed_out_weight,  # [S, E, F]
    feed_out_bias,  # [S, E]
    feed_norm_weight,  # [S, E]
    feed_norm_bias,  # [S, E]
    output,  # [S, R, E]
    hidden,  # h = (m, f, 1, 0 ...) [S, R, HIDDEN]
    statistics,  # mean and 1 / std of the two LayerNorms [S, R, 4]
    rows, nodes, eps,
    SAVE: tl.constexpr,
    TILE: tl.constexpr, PRECISION: tl.constexpr, SIZE: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
    MESSAGE: tl.constexpr, MESSAGE_PAD: tl.constexpr, FEED: tl.constexpr, FEED_PAD: tl.constexpr, HIDDEN: tl.constexpr,
    EVEN: tl.constexpr,  # the last tile is full
):  # fmt: skip
    """e'_ij by the equations above, and with SAVE h and the statistics, of some tiles of TILE edges of one seed."""
    dtype: tl.constexpr = edges.dtype.element_ty
    seed = tl.program_id(1).to(tl.int64)
    edges += seed * rows * SIZE
    halves += seed * rows * 2 * MESSAGE
    output += seed * rows * SIZE
    hidden += seed * rows * HIDDEN
    statistics += seed * rows * 4
    receivers += seed * (rows // nodes) * MESSAGE
    senders += seed * (rows // nodes) * MESSAGE
    out_weight += seed * SIZE * MESSAGE
    out_bias += seed * SIZE
    norm_weight += seed * SIZE
    norm_bias += seed * SIZE
    feed_in_weight += seed * SIZE * FEED
    feed_in_bias += seed * FEED
    feed_out_weight += seed * SIZE * FEED
    feed_out_bias += seed * SIZE
    feed_norm_weight += seed * SIZE
    feed_norm_bias += seed * SIZE
    for start in tl.range(tl.program_id(0) * TILE, rows, tl.num_programs(0) * TILE, disable_licm=True):
        row = tl.arange(0, TILE).to(tl.int64) + start
        valid = (row < rows) | EVEN
        receiver, sender, reverse = edge_ends(row, nodes)
        message = load_rows(halves, row, valid, 2 * MESSAGE, MESSAGE, MESSAGE_PAD).to(tl.float32)
        message += load_rows(halves + MESSAGE, reverse, valid, 2 * MESSAGE, MESSAGE, MESSAGE_PAD).to(tl.float32)
        message += load_rows(receivers, receiver, valid, MESSAGE, MESSAGE, MESSAGE_PAD).to(tl.float32)
        message += load_rows(senders, sender, valid, MESSAGE, MESSAGE, MESSAGE_PAD).to(tl.float32)
        message = tl.maximum(message, 0.0).to(dtype)
        tiles = ()
        for chunk in tl.static_range(CHUNKS):
            tile = before_norm(edges, row, valid, message, out_weight, out_bias, chunk, SIZE, CHUNK, MESSAGE, PRECISION)
            tiles = tiles + (tile,)  # noqa: RUF005
        mean, inverse = moments(tiles, eps, SIZE, CHUNK)

        feed = tl.zeros((TILE, FEED_PAD), tl.float32) + load_vector(feed_in_bias, 0, FEED, FEED_PAD)
        middle = ()
        for chunk in tl.static_range(CHUNKS):
            normal = standardise(tiles[chunk], mean, inverse, chunk, SIZE, CHUNK)
            tile = affine(normal, norm_weight, norm_bias, chunk, SIZE, CHUNK)
            weight = load_wide(feed_in_weight, SIZE, chunk, dtype, SIZE, CHUNK, FEED, FEED_PAD)
            feed = tl.dot(tile.to(dtype), tl.trans(weight), feed, input_precision=PRECISION)
            middle = middle + (tile,)  # noqa: RUF005
        feed = tl.maximum(feed, 0.0).to(dtype)
        tiles = ()
        for chunk in tl.static_range(CHUNKS):
            tile = middle[chunk] + load_vector(feed_out_bias, chunk, SIZE, CHUNK)
            tile = plus_feed(tile, feed, feed_out_weight, chunk, SIZE, CHUNK, FEED, PRECISION)
            tiles = tiles + (tile,)  # noqa: RUF005
        last_mean, last_inverse = moments(tiles, eps, SIZE, CHUNK)
        for chunk in tl.static_range(CHUNKS):
            normal = standardise(tiles[chunk], last_mean, last_inverse, chunk, SIZE, CHUNK)
            tile = affine(normal, feed_norm_weight, feed_norm_bias, chunk, SIZE, CHUNK)
            store_chunk(output, row, valid, SIZE, tile, chunk, SIZE)
        if SAVE:
            REST: tl.constexpr = HIDDEN - MESSAGE - FEED  # at most 8 columns
            store_rows(hidden, row, valid, HIDDEN, message, MESSAGE)
            store_rows(hidden + MESSAGE, row, valid, HIDDEN, feed, FEED)
            one = (tl.arange(0, 8) == 0).to(tl.float32)[None, :] + tl.zeros((TILE, 1), tl.float32)
            store_rows(hidden + MESSAGE + FEED, row, valid, HIDDEN, one, REST)
            tl.store(statistics + row * 4, mean, mask=valid)
            tl.store(statistics + row * 4 + 1, inverse, mask=valid)
            tl.store(statistics + row * 4 + 2, last_mean, mask=valid)
            tl.store(statistics + row * 4 + 3, last_inverse, mask=valid)
