r"""Scores of pointers from many rows to a few choices as one operator of PyTorch.

$$s_{rk} = \sum_c w_c \max(l_{rc}, p_{kc})$$

Compiled, the forward pass and each of the three gradients (of l, p and w) goes over all R x K x C maxima. Here
the backward pass makes them once, in registers, and adds up in three directions:

$$dl_{rc} = w_c \sum_k ds_{rk} [l_{rc} > p_{kc}] \qquad dp_{kc} = w_c \sum_r ds_{rk} [p_{kc} > l_{rc}] \qquad
dw_c = \sum_{rk} ds_{rk} \max(l_{rc}, p_{kc})$$

with half of each where both are equal. A program has all choices of one pointer against some rows, 64 channels at a
time.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels.seeds import differentiable, differentiable_once
from relational_transformer.nn.kernels.tiles import MULTIPROCESSORS, chunk_width

PAIRS = 64
"""Rows times choices that a program works on at once, unless the choices of one row are more: with 64 channels, 32
maxima a thread."""
PROGRAMS = 4 * MULTIPROCESSORS
"""The least number of programs of the backward pass: with fewer, the rows of a graph are split."""


def pointer_scores(rows: Tensor, choices: Tensor, weight: Tensor) -> Tensor:
    """Scores [B, R, K, F] in float32, of rows [B, R, F, C], choices [B, K, F, C] and weights [F, C]."""
    (scores,) = scored(*(tensor.unsqueeze(0) for tensor in (rows, choices, weight)))
    return scores.squeeze(0)


@torch.library.custom_op("relational_transformer::pointer_scores", mutates_args=())
def pointer_scores_operator(
    rows: Tensor,  # [S, B, R, F, C]
    choices: Tensor,  # [S, B, K, F, C]
    weight: Tensor,  # [S, F, C]
) -> tuple[Tensor]:
    return (pointer_scores_forward(rows.contiguous(), choices.contiguous(), weight.contiguous()),)


@pointer_scores_operator.register_fake
def _(rows: Tensor, choices: Tensor, weight: Tensor) -> tuple[Tensor]:
    seeds, batch, count, features, _ = rows.shape
    return (rows.new_empty((seeds, batch, count, choices.shape[2], features), dtype=torch.float32),)


@torch.library.custom_op("relational_transformer::pointer_scores_backward", mutates_args=())
def pointer_scores_backward_operator(
    gradient: Tensor,  # [S, B, R, K, F]
    rows: Tensor,
    choices: Tensor,
    weight: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    return pointer_scores_backward(*(tensor.contiguous() for tensor in (gradient, rows, choices, weight)))


@pointer_scores_backward_operator.register_fake
def _(gradient: Tensor, rows: Tensor, choices: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    of_choices, of_weight = (weight.new_empty(tensor.shape, dtype=torch.float32) for tensor in (choices, weight))
    return rows.new_empty(rows.shape), of_choices, of_weight


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor]) -> None:
    ctx.save_for_backward(*inputs)


def _differentiate(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
    rows, choices, weight = ctx.saved_tensors
    of_rows, of_choices, of_weight = scored_backward(gradient, rows, choices, weight)
    return of_rows, of_choices.to(choices.dtype), of_weight.to(weight.dtype)


scored = differentiable(pointer_scores_operator, _save, _differentiate)
scored_backward = differentiable_once(pointer_scores_backward_operator)


def pointer_scores_forward(rows: Tensor, choices: Tensor, weight: Tensor) -> Tensor:
    """[S, B, R, F, C], [S, B, K, F, C], [S, F, C] -> [S, B, R, K, F] in float32; all contiguous."""
    seeds, batch, count, features, channels = rows.shape
    num_choices = choices.shape[2]
    scores = rows.new_empty((seeds, batch, count, num_choices, features), dtype=torch.float32)
    if scores.numel():
        sizes = _sizes(num_choices, features, channels)
        grid = (seeds * batch * features, triton.cdiv(count, sizes["ROWS"]))
        _forward[grid](rows, choices, weight, scores, count, num_choices, batch, **sizes)
    return scores


def pointer_scores_backward(
    gradient: Tensor, rows: Tensor, choices: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of rows, in their dtype, and of choices and weight, in float32, given those of the scores."""
    if not gradient.numel():
        of_choices, of_weight = (torch.zeros_like(tensor, dtype=torch.float32) for tensor in (choices, weight))
        return torch.zeros_like(rows), of_choices, of_weight
    seeds, batch, count, features, channels = rows.shape
    num_choices = choices.shape[2]
    sizes = _sizes(num_choices, features, channels)
    chunks = triton.cdiv(channels, sizes["CHUNK"])
    parts = _parts(count, sizes["ROWS"], seeds * batch * features * chunks)
    of_rows = torch.empty_like(rows)
    of_choices = rows.new_empty((parts, *choices.shape), dtype=torch.float32)
    of_weight = rows.new_empty((parts, seeds, batch, features, channels), dtype=torch.float32)
    grid = (seeds * batch * features, parts, chunks)
    rows_of_part = triton.cdiv(count, parts * sizes["ROWS"]) * sizes["ROWS"]
    _backward[grid](
        gradient, rows, choices, weight, of_rows, of_choices, of_weight,
        count, rows_of_part, num_choices, batch, choices.numel(), weight.numel() * batch, **sizes,
    )  # fmt: skip
    return of_rows, of_choices.sum(0), of_weight.sum((0, 2))


def _sizes(num_choices: int, features: int, channels: int) -> dict[str, Any]:
    """The compile-time constants of both kernels, and how many warps a program has."""
    choices = triton.next_power_of_2(num_choices)
    rows = max(1, PAIRS // choices)
    return {
        "ROWS": rows,
        "CHOICES": choices,
        "FEATURES": features,
        "CHANNELS": channels,
        "CHUNK": chunk_width(channels),
        "num_warps": 4,
    }


def _parts(count: int, rows: int, programs: int) -> int:
    """The number of parts into which the rows of a graph are split, given the number of programs without splitting."""
    return max(1, min(triton.cdiv(count, rows), triton.cdiv(PROGRAMS, programs)))


@triton.jit
def _load(pointer, first, number, graph, feature, count, FEATURES: tl.constexpr, CHANNELS: tl.constexpr, channel):
    """Some channels of one pointer's vectors from the first on, [number, CHUNK] in float32."""
    at = ((graph * count + first + number) * FEATURES + feature) * CHANNELS
    is_there = (first + number < count)[:, None] & (channel < CHANNELS)[None, :]
    return tl.load(pointer + at[:, None] + channel[None, :], mask=is_there, other=0.0).to(tl.float32)


@triton.jit
def _load_weight(pointer, seed, feature, FEATURES: tl.constexpr, CHANNELS: tl.constexpr, channel):
    """Some channels of the weight that a seed scores one pointer by, [CHUNK] in float32."""
    at = (seed * FEATURES + feature) * CHANNELS + channel
    return tl.load(pointer + at, mask=channel < CHANNELS, other=0.0).to(tl.float32)


@triton.jit
def _largest(ours, theirs):
    """The maximum, which propagates NaN, so that a diverged seed is detected."""
    return tl.maximum(ours, theirs, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _forward(
    rows, choices, weight, scores, count, num_choices, batch,
    ROWS: tl.constexpr, CHOICES: tl.constexpr, FEATURES: tl.constexpr, CHANNELS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """s_rk of one pointer of one graph, of ROWS rows r and all choices k."""
    which = tl.program_id(0).to(tl.int64)
    graph, feature = which // FEATURES, which % FEATURES
    first = tl.program_id(1) * ROWS
    row, choice = tl.arange(0, ROWS), tl.arange(0, CHOICES)
    total = tl.zeros([ROWS, CHOICES, CHUNK], tl.float32)
    for start in range(0, CHANNELS, CHUNK):
        channel = start + tl.arange(0, CHUNK)
        left = _load(rows, first, row, graph, feature, count, FEATURES, CHANNELS, channel)
        right = _load(choices, 0, choice, graph, feature, num_choices, FEATURES, CHANNELS, channel)
        scale = _load_weight(weight, graph // batch, feature, FEATURES, CHANNELS, channel)
        total += _largest(left[:, None, :], right[None, :, :]) * scale[None, None, :]
    at = ((graph * count + first + row)[:, None] * num_choices + choice[None, :]) * FEATURES + feature
    is_there = (first + row < count)[:, None] & (choice < num_choices)[None, :]
    tl.store(scores + at, tl.sum(total, axis=2), mask=is_there)


@triton.jit
def _backward(
    gradient, rows, choices, weight, of_rows, of_choices, of_weight,
    count, rows_of_part, num_choices, batch, all_choices, all_weights,
    ROWS: tl.constexpr, CHOICES: tl.constexpr, FEATURES: tl.constexpr, CHANNELS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """dl_r of one part of the rows r, and what they add to dp and dw: CHUNK channels of one pointer of one graph."""
    which = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1).to(tl.int64)
    graph, feature = which // FEATURES, which % FEATURES
    channel = tl.program_id(2) * CHUNK + tl.arange(0, CHUNK)
    row, choice = tl.arange(0, ROWS), tl.arange(0, CHOICES)
    right = _load(choices, 0, choice, graph, feature, num_choices, FEATURES, CHANNELS, channel)
    scale = _load_weight(weight, graph // batch, feature, FEATURES, CHANNELS, channel)
    to_right = tl.zeros([ROWS, CHOICES, CHUNK], tl.float32)
    to_weight = tl.zeros([ROWS, CHOICES, CHUNK], tl.float32)
    last = tl.minimum((part + 1) * rows_of_part, count)
    for first in range(part * rows_of_part, last, ROWS):
        left = _load(rows, first, row, graph, feature, count, FEATURES, CHANNELS, channel)
        at = ((graph * count + first + row)[:, None] * num_choices + choice[None, :]) * FEATURES + feature
        is_there = (first + row < count)[:, None] & (choice < num_choices)[None, :]
        given = tl.load(gradient + at, mask=is_there, other=0.0)[:, :, None]
        ours, theirs = left[:, None, :], right[None, :, :]
        # Where both are the largest, each gets half, as autograd has it.
        to_left = given * tl.where(ours > theirs, 1.0, tl.where(ours == theirs, 0.5, 0.0))
        to_right += given - to_left
        to_weight += given * _largest(ours, theirs)
        row_at = ((graph * count + first + row) * FEATURES + feature) * CHANNELS
        row_is_there = (first + row < count)[:, None] & (channel < CHANNELS)[None, :]
        row_gradient = tl.sum(to_left, axis=1) * scale[None, :]
        tl.store(
            of_rows + row_at[:, None] + channel[None, :], row_gradient.to(of_rows.dtype.element_ty), mask=row_is_there
        )
    choice_at = part * all_choices + ((graph * num_choices + choice) * FEATURES + feature) * CHANNELS
    choice_is_there = (choice < num_choices)[:, None] & (channel < CHANNELS)[None, :]
    choice_gradient = tl.sum(to_right, axis=0) * scale[None, :]
    tl.store(of_choices + choice_at[:, None] + channel[None, :], choice_gradient, mask=choice_is_there)
    weight_at = part * all_weights + (graph * FEATURES + feature) * CHANNELS + channel
    tl.store(of_weight + weight_at, tl.sum(tl.sum(to_weight, axis=1), axis=0), mask=channel < CHANNELS)
