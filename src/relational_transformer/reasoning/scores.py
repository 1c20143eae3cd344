"""The scores of CLRS-30: F1 of masks and the share of right choices, over all elements of a split."""

from collections.abc import Iterable

import torch
from torch import Tensor

from relational_transformer.clrs.spec import Type

from .encoders import one_hot
from .features import FeatureGroup, Packed, unpack
from .hints import decide
from .losses import MASKED
from .permutations import decide_permutation, first_nodes, point_to_themselves


def count(
    group: FeatureGroup,
    logits: Tensor,
    truth: Tensor,
    node_mask: Tensor | None = None,
    example_mask: Tensor | None = None,
) -> Tensor:
    """The counts for a score, [3, F]. Counts of several batches are summed before the score is computed.

    | type | row 0 | row 1 | row 2 |
    |---|---|---|---|
    | mask | true positives | false positives | false negatives |
    | mask_one, categorical, pointer, permutation | right ones | all of them | 0 |
    | scalar | sum of squared errors | number of them | 0 |

    Masked elements, absent nodes and examples outside `example_mask` (bool [B]) do not count; every element of a
    pointer does.
    """
    if group.is_permutation:
        return _count_pointers(group, decide_permutation(logits, node_mask), truth.argmax(-2), node_mask, example_mask)
    decided = decide(group, logits)
    if group.type == Type.MASK:
        counted = truth != MASKED
        positive = truth == 1
        rows = (decided & positive, decided & ~positive, ~decided & positive)
    elif group.type == Type.SCALAR:
        counted = torch.ones_like(truth, dtype=torch.bool)
        rows = ((decided - truth).double().square(), counted)
    elif group.is_pointer:
        return _count_pointers(group, decided, truth, node_mask, example_mask)
    else:
        counted = (truth != MASKED).all(-2)
        rows = (logits.argmax(-2) == truth.argmax(-2), counted)
    return _summed(group, rows, counted, node_mask, example_mask)


def _count_pointers(
    group: FeatureGroup, decided: Tensor, truth: Tensor, node_mask: Tensor | None, example_mask: Tensor | None
) -> Tensor:
    counted = torch.ones_like(truth, dtype=torch.bool)
    return _summed(group, (decided == truth, counted), counted, node_mask, example_mask)


def _summed(
    group: FeatureGroup,
    rows: tuple[Tensor, ...],
    counted: Tensor,
    node_mask: Tensor | None,
    example_mask: Tensor | None,
) -> Tensor:
    """What counts of these rows, [3, F]."""
    present = group.present(node_mask)
    counted = counted if present is None else counted & present
    if example_mask is not None:
        counted = counted & example_mask.reshape(-1, *(1,) * (counted.dim() - 1))
    sums = [(row.double() * counted).flatten(0, -2).sum(0) for row in rows]
    sums += [torch.zeros_like(sums[0])] * (3 - len(sums))
    return torch.stack(sums)


def count_all(
    groups: Iterable[FeatureGroup],
    logits: Packed,
    truth: Packed,
    node_mask: Tensor | None = None,
    example_mask: Tensor | None = None,
) -> Packed:
    """`count` for every group, by key.

    Permutations whose first node is a separate output (`pred_mask` of `pred`) are counted together with it, as
    pointers. The mask does not count by itself.
    """
    groups = tuple(groups)
    masks = first_nodes(groups)
    counts: Packed = {}
    for group in groups:
        key = group.key
        if key in masks:
            mask = masks[key]
            chosen = one_hot(logits[mask].argmax(-2), logits[mask].shape[-2])
            decided = point_to_themselves(decide_permutation(logits[key], node_mask), chosen)
            true = point_to_themselves(truth[key].argmax(-2), truth[mask] == 1)
            counts[key] = _count_pointers(group, decided, true, node_mask, example_mask)
        elif key not in masks.values():
            counts[key] = count(group, logits[key], truth[key], node_mask, example_mask)
    return counts


def score(group: FeatureGroup, counts: Tensor) -> Tensor:
    """The score of every feature of a group, [F], from its counts [3, F] (an error, in the case of scalars).

    Precision and recall are 1 where they are undefined.
    """
    first, second, third = counts.unbind(0)
    if group.type != Type.MASK:
        return first / second.clamp(min=1)
    precision = torch.where(first + second > 0, first / (first + second).clamp(min=1), 1.0)
    recall = torch.where(first + third > 0, first / (first + third).clamp(min=1), 1.0)
    both = precision + recall
    return torch.where(both > 0, 2 * precision * recall / both.clamp(min=1e-12), 0.0)


def score_all(groups: Iterable[FeatureGroup], counts: Packed) -> dict[str, Tensor]:
    """The scores by name, from counts."""
    groups = tuple(groups)
    return unpack(groups, {group.key: score(group, counts[group.key]) for group in groups if group.key in counts})


def mean_score(groups: Iterable[FeatureGroup], counts: Packed) -> Tensor:
    """The score of an algorithm: the mean over its outputs, whatever their types."""
    return torch.stack(list(score_all(groups, counts).values())).mean(0)
