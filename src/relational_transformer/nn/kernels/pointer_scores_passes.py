"""The kernels of pointer scores. A program has all choices of one pointer against some rows, 64 channels at a time."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from relational_transformer.nn.kernels.tiles import MULTIPROCESSORS, chunk_width

PAIRS = 64
"""Rows times choices that a program works on at once, unless the choices of one row are more: with 64 channels, 32
maxima a thread."""
PROGRAMS = 4 * MULTIPROCESSORS
"""Of the backward pass, at least: with fewer, the rows of a graph are shared out."""


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
    """Into how many parts to share out the rows of a graph, where so many programs take all of them."""
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
    """The larger one; what is not a number stays none, so that a seed that has diverged is seen."""
    return tl.maximum(ours, theirs, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _forward(
    rows, choices, weight, scores, count, num_choices, batch,
    ROWS: tl.constexpr, CHOICES: tl.constexpr, FEATURES: tl.constexpr, CHANNELS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
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
