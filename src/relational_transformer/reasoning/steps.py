"""The steps of a batch of trajectories: their hints, targets and masks."""

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
        keeps_output: which examples replace their outputs of earlier steps, bool [B].
        totals: how many elements of every hint count in the whole trajectory, [F] by key.
    """

    hints: Packed
    next_hints: Packed
    teacher_forced: Tensor
    is_target: Tensor
    keeps_output: Tensor
    totals: Packed


class Schedule(NamedTuple):
    """The steps of a batch without their hints: the masks of `Step` for all steps, bool [steps, B]."""

    teacher_forced: Tensor
    is_target: Tensor
    keeps_output: Tensor
    totals: Packed


def make_schedule(hints: Iterable[FeatureGroup], batch: Batch, teacher_forced: Tensor) -> Schedule:
    """The max(1, T - 1) steps of a batch. `teacher_forced` [T - 1, B] says which examples see the true hints.

    The outputs of an example are those of its step max(0, length - 2); steps beyond its length change nothing.
    """
    num_steps = max(1, teacher_forced.shape[0])
    numbers = torch.arange(num_steps, device=batch.lengths.device).unsqueeze(-1)  # [steps, 1]
    is_target = batch.lengths > numbers + 1  # [steps, B]
    is_first = (numbers == 0).expand_as(is_target)
    forced = teacher_forced | is_first if teacher_forced.shape[0] else is_first
    totals: Packed = {}
    for group in hints:
        targets = batch.hints[group.key][1:]
        totals[group.key] = hint_counts(group, targets, is_target[: targets.shape[0]], batch.node_mask)
    return Schedule(forced, is_target, is_target | is_first, totals)


def make_steps(hints: Packed, schedule: Schedule) -> list[Step]:
    """All steps, from hints [T, ...] and a schedule: step t sees hints t and predicts hints t + 1."""
    forced, is_target, keeps_output, totals = schedule
    return [
        Step(
            {key: hint[number] for key, hint in hints.items()},
            {key: hint[min(number + 1, len(hint) - 1)] for key, hint in hints.items()},
            forced[number],
            is_target[number],
            keeps_output[number],
            totals,
        )
        for number in range(len(forced))
    ]


def keep(is_kept: Tensor, new: Packed, old: Packed) -> Packed:
    """New logits for examples with `is_kept` [B], old ones for the others. The order of keys stays the same, so that
    all steps share one compiled function."""
    return {key: new[key].where(is_kept.reshape(-1, *(1,) * (last.dim() - 1)), last) for key, last in old.items()}


ALIGNMENT = 16
"""The alignment of rows in bytes. The compiler copies unaligned tensors."""


def aligned_rows(tensor: Tensor) -> Tensor:
    """A copy of a tensor [T, ...] whose rows are contiguous and each begin at a multiple of `ALIGNMENT` bytes.

    >>> rows = aligned_rows(torch.arange(6, dtype=torch.int8).view(2, 3))
    >>> rows.tolist(), rows[1].data_ptr() - rows[0].data_ptr()
    ([[0, 1, 2], [3, 4, 5]], 16)
    """
    shape, rows = tensor.shape, tensor.contiguous().flatten(1)
    too_many = rows.shape[1] * rows.element_size() % ALIGNMENT
    if too_many:
        padding = (ALIGNMENT - too_many) // rows.element_size()
        rows = torch.cat([rows, rows.new_zeros(len(rows), padding)], dim=1)
    return rows[:, : shape[1:].numel()].view(shape)
