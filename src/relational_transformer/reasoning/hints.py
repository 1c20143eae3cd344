"""Hints fed back: hard decisions made of logits, and teacher forcing."""

from collections.abc import Iterable

from torch import Tensor

from relational_transformer.clrs.spec import Type

from .encoders import one_hot
from .features import FeatureGroup, Packed


def decide(group: FeatureGroup, logits: Tensor) -> Tensor:
    """What packed logits say, in the form of data: mask > 0, one-hot or index of the largest (the first, if equal).

    Scalars are passed on as they are, gradients included; nothing else has a gradient.
    """
    if group.type == Type.SCALAR:
        return logits
    if group.type == Type.MASK:
        return logits > 0
    largest = logits.argmax(-2)
    return largest if group.is_pointer else one_hot(largest, logits.shape[-2])


def feed_hints(groups: Iterable[FeatureGroup], truth: Packed, logits: Packed, teacher_forced: Tensor) -> Packed:
    """The hints a step sees: true ones for examples that are `teacher_forced` (bool [B]), else the model's own."""
    hints: Packed = {}
    for group in groups:
        true = truth[group.key]
        own = decide(group, logits[group.key])
        own = own if group.type == Type.SCALAR else own.to(true.dtype)
        hints[group.key] = true.where(_like(teacher_forced, true), own)
    return hints


def _like(examples: Tensor, data: Tensor) -> Tensor:
    """[B] with as many axes as data [B, ...]."""
    return examples.reshape(examples.shape + (1,) * (data.dim() - 1))
