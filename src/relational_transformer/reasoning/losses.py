"""The losses of CLRS-30: the mean over the elements of each hint and of each output, summed over all of them."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from relational_transformer.clrs.spec import Type
from relational_transformer.processors.largest import largest

from .encoders import one_hot
from .features import FeatureGroup
from .permutations import log_permutation

EPSILON = 1e-12
MASKED = -1


class Elements(NamedTuple):
    """The loss of every element of a group, and the weight of each element (0 where it is masked or absent).

    Shapes: [..., B, F] for mask_ones and features of graphs, [..., B, N, F] or [..., B, N, N, F] otherwise; `counts`
    broadcasts to `losses`.
    """

    losses: Tensor
    counts: Tensor


def element_losses(group: FeatureGroup, logits: Tensor, truth: Tensor, node_mask: Tensor | None = None) -> Elements:
    """The squared error of scalars and the cross-entropy of all others, by element, in float32 or better. The
    probabilities of permutations come from the logits by Sinkhorn's iterations.

    Shapes: as in `FeatureGroup`, without steps in front.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    counts = element_counts(group, truth, node_mask).to(logits.dtype)
    if group.is_permutation:
        return Elements(-(truth.to(logits.dtype) * log_permutation(logits, node_mask)).sum(-2), counts)
    if group.is_pointer:
        chosen = torch.where(one_hot(truth, logits.shape[-2]), log_probabilities(logits), 0.0)
        return Elements(-chosen.sum(-2), counts)
    truth = truth.to(logits.dtype)
    if group.type == Type.SCALAR:
        return Elements((logits - truth).square(), counts)
    if group.type == Type.MASK:
        return Elements(F.binary_cross_entropy_with_logits(logits, truth, reduction="none"), counts)
    truth = torch.where(truth == MASKED, 0.0, truth)
    return Elements(-(truth * log_probabilities(logits)).sum(-2), counts)


def log_probabilities(logits: Tensor) -> Tensor:
    """log softmax(x)_j = x_j - m - log sum_k exp(x_k - m) along axis -2, m the largest, with a gradient whose sum is
    exactly zero.

    A softmax does not depend on a shift of all logits, so parameters that shift them (their bias, a pointer's own node)
    should get no gradient. With `log_softmax` they do: for a perfectly learnt choice, 1 - p is rounded to 0 while the
    others keep their p_j, so the sum is always positive. Where nothing else is left to learn, Adam scales this up to
    full steps in one direction. Here m is differentiated as well, so that the gradient of the largest logit cancels
    those of the others.
    """
    relative = logits - largest(logits, -2, keepdim=True)
    return relative - relative.exp().sum(-2, keepdim=True).log()


def element_counts(group: FeatureGroup, truth: Tensor, node_mask: Tensor | None = None) -> Tensor:
    """Which elements of the truth count, bool, broadcastable to [..., B, (N, (N,)) F]. Steps may be in front."""
    if group.type == Type.MASK:
        counted = truth != MASKED
    elif group.type == Type.CATEGORICAL:
        counted = (truth == 1).any(-2)
    else:
        is_chosen_by_ones = group.type == Type.MASK_ONE or group.is_permutation
        shape = truth.shape[:-2] + truth.shape[-1:] if is_chosen_by_ones else truth.shape
        counted = torch.ones(shape, dtype=torch.bool, device=truth.device)
    present = group.present(node_mask)
    return counted if present is None else counted & present


def output_losses(group: FeatureGroup, logits: Tensor, truth: Tensor, node_mask: Tensor | None = None) -> Tensor:
    """The loss of every output of a group, [F]: the mean over its elements in the whole batch.

    A mask_one counts as many times as it has ones.
    """
    losses, counts = element_losses(group, logits, truth, node_mask)
    if group.type == Type.MASK_ONE:
        counts = (truth == 1).sum(-2).to(losses.dtype)
        return sum_over_elements(losses) / sum_over_elements(counts)
    return sum_over_elements(losses * counts) / sum_over_elements(counts)


def hint_counts(group: FeatureGroup, truth: Tensor, is_target: Tensor, node_mask: Tensor | None = None) -> Tensor:
    """The number of elements of each hint that count, over all steps, [F]. Its losses are divided by this.

    It depends on data alone, so the loss can be summed step by step. Shapes: truth [T, B, ...], is_target [T, B].
    """
    counted = element_counts(group, truth, node_mask)
    counted = counted & is_target.reshape(is_target.shape + (1,) * (counted.dim() - 2))
    return sum_over_elements(counted).clamp(min=EPSILON)


def hint_losses(
    group: FeatureGroup,
    logits: Tensor,
    truth: Tensor,
    is_target: Tensor,
    totals: Tensor,
    node_mask: Tensor | None = None,
) -> Tensor:
    """The contribution of one step to the loss of every hint of a group, [F].

    Args:
        logits: predictions of this step.
        truth: hints of the next step.
        is_target: bool [B], whether the example has a next step.
        totals: `hint_counts` of the trajectory, [F].
        node_mask: bool [B, N].
    """
    losses, counts = element_losses(group, logits, truth, node_mask)
    weights = counts * is_target.reshape(is_target.shape + (1,) * (counts.dim() - 1))
    return sum_over_elements(losses * weights) / totals


def sum_over_elements(values: Tensor) -> Tensor:
    """[..., F] -> [F], in float32 or better."""
    dtype = values.dtype if values.is_floating_point() else torch.float32
    return values.flatten(0, -2).sum(0, dtype=dtype)
