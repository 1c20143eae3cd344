"""What each step of a batch of trajectories is given and asked."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from .features import Batch, FeatureGroup, Packed
from .losses import hint_counts


class Step(NamedTuple):
    """One step of training. It depends on data and noise, not on the model.

    Attributes:
        hints: true hints at this step, packed [B, ...].
        next_hints: true hints at the next one, to be predicted.
        teacher_forced: which examples see the true hints, bool [B]; the others see the model's own.
        is_target: which examples have a next hint, bool [B].
        keeps_output: whose outputs replace those of the steps before, bool [B].
        totals: how many elements of every hint count in the whole trajectory, [F] by key.
    """

    hints: Packed
    next_hints: Packed
    teacher_forced: Tensor
    is_target: Tensor
    keeps_output: Tensor
    totals: Packed


def make_steps(hints: Iterable[FeatureGroup], batch: Batch, teacher_forced: Tensor) -> list[Step]:
    """The max(1, T - 1) steps of a batch, given noise [T - 1, B] that says who sees the true hints.

    Step t sees hints t and predicts hints t + 1. The outputs of an example are those of its step max(0, length - 2);
    steps beyond its length change nothing.
    """
    num_steps = max(1, teacher_forced.shape[0])
    numbers = torch.arange(num_steps, device=batch.lengths.device).unsqueeze(-1)  # [S, 1]
    is_target = batch.lengths > numbers + 1  # [S, B]
    is_first = (numbers == 0).expand_as(is_target)
    forced = teacher_forced | is_first if teacher_forced.shape[0] else is_first
    keeps_output = is_target | is_first
    totals: Packed = {}
    for group in hints:
        targets = batch.hints[group.key][1:]
        totals[group.key] = hint_counts(group, targets, is_target[: targets.shape[0]], batch.node_mask)
    return [
        Step(
            {key: hint[number] for key, hint in batch.hints.items()},
            {key: hint[min(number + 1, hint.shape[0] - 1)] for key, hint in batch.hints.items()},
            forced[number],
            is_target[number],
            keeps_output[number],
            totals,
        )
        for number in range(num_steps)
    ]
