"""The feedback of hints: the form in which a step sees the predictions of the last one, and teacher forcing."""

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor

from relational_transformer.clrs.spec import Type

from .encoders import one_hot
from .features import FeatureGroup, Packed
from .permutations import decide_permutation

HintFeedback = Literal["paper", "soft", "hard", "hard_on_eval"]
"""The form in which a network sees its own hints. `paper`: decisions, with gradients for scalars alone; `soft`:
probabilities with gradients; `hard`: as `paper`, without any gradient; `hard_on_eval`: soft in training, hard in
evaluation."""

Feeding = Literal["paper", "soft", "hard"]
"""The form of hints in training, or in evaluation."""


def feeding_of(feedback: HintFeedback, *, training: bool) -> Feeding:
    """The form of hints in training, or in evaluation."""
    if feedback == "hard_on_eval":
        return "soft" if training else "hard"
    return feedback


def passes_gradients(group: FeatureGroup, feeding: Feeding) -> bool:
    """Whether gradients of a step flow back through the hints of this group into the step before."""
    return feeding == "soft" or (feeding == "paper" and group.type == Type.SCALAR)


def decide(group: FeatureGroup, logits: Tensor, node_mask: Tensor | None = None) -> Tensor:
    """Packed logits as data: mask > 0, one-hot or index of the largest (the first of equals).

    Scalars are unchanged and keep their gradients. Nothing else has a gradient.
    """
    if group.type == Type.SCALAR:
        return logits
    if group.type == Type.MASK:
        return logits > 0
    largest = decide_permutation(logits, node_mask) if group.is_permutation else logits.argmax(-2)
    is_index = group.type == Type.POINTER
    return largest if is_index else one_hot(largest, logits.shape[-2])


def soften(group: FeatureGroup, logits: Tensor) -> Tensor:
    """Packed logits as probabilities, in the form of logits. Scalars are unchanged. All have gradients."""
    if group.type == Type.SCALAR:
        return logits
    return logits.sigmoid() if group.type == Type.MASK else logits.softmax(-2)


def feed_own(group: FeatureGroup, logits: Tensor, feeding: Feeding) -> Tensor:
    """The form in which a step sees the logits of the last one."""
    if feeding == "soft":
        return soften(group, logits)
    return decide(group, logits.detach() if feeding == "hard" else logits)


def feed_hints(
    groups: Iterable[FeatureGroup],
    truth: Packed,
    logits: Packed,
    teacher_forced: Tensor,
    feeding: Feeding = "paper",
) -> Packed:
    """The hints that a step sees: true ones for `teacher_forced` examples (bool [B]), else the model's own."""
    hints: Packed = {}
    for group in groups:
        true, own = truth[group.key], feed_own(group, logits[group.key], feeding)
        if feeding == "soft":
            true = as_numbers(group, true, own.shape[-2], own.dtype)
        elif group.type != Type.SCALAR:
            own = own.to(true.dtype)
        hints[group.key] = true.where(_like(teacher_forced, true), own)
    return hints


def as_numbers(group: FeatureGroup, data: Tensor, num_nodes: int, dtype: torch.dtype) -> Tensor:
    """Packed data in the form of logits: a pointer as one-hot."""
    return (one_hot(data, num_nodes) if group.type == Type.POINTER else data).to(dtype)


def _like(examples: Tensor, data: Tensor) -> Tensor:
    """[B] with as many axes as data [B, ...]."""
    return examples.reshape(examples.shape + (1,) * (data.dim() - 1))
