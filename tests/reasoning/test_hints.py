"""Hints fed back: hard, the first of equals, and true where the teacher says so."""

import torch

from relational_transformer.clrs.spec import Location, Type
from relational_transformer.reasoning import FeatureGroup
from relational_transformer.reasoning.hints import decide, feed_hints, soften

CLOSE = {"atol": 1e-4, "rtol": 0.0}


def group(kind: Type, classes: int | None = None, location: Location = Location.NODE) -> FeatureGroup:
    return FeatureGroup(location, kind, classes, ("x",))


def test_masks_are_positive_logits() -> None:
    logits = torch.tensor([[[-0.1], [0.0], [0.2]]])
    assert decide(group(Type.MASK), logits).flatten().tolist() == [False, False, True]


def test_of_equal_logits_the_first_is_chosen() -> None:
    logits = torch.tensor([[[1.0], [3.0], [3.0]]])
    assert decide(group(Type.MASK_ONE), logits).int().flatten().tolist() == [0, 1, 0]
    pointers = torch.tensor([[[0.0, 0.0], [5.0, 5.0]]]).unsqueeze(-1)  # [B, i, j, F]
    assert decide(group(Type.POINTER), pointers).squeeze(-1).tolist() == [[0, 0]]


def test_categoricals_are_one_hot_over_classes() -> None:
    logits = torch.tensor([[[0.1, 0.9, 0.3], [2.0, 0.0, 1.0]]]).unsqueeze(-1)  # [B, N, classes, F]
    assert decide(group(Type.CATEGORICAL, 3), logits).int().squeeze(-1).tolist() == [[[0, 1, 0], [1, 0, 0]]]


def test_only_scalars_carry_gradients() -> None:
    logits = torch.randn(2, 3, 1, requires_grad=True)
    truth = {"node_scalar": torch.zeros(2, 3, 1)}
    fed = feed_hints([group(Type.SCALAR)], truth, {"node_scalar": logits}, torch.tensor([True, False]))
    fed["node_scalar"].sum().backward()
    assert logits.grad is not None
    assert logits.grad.flatten().tolist() == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    assert not decide(group(Type.MASK), logits).is_floating_point()


def test_each_example_has_its_own_teacher() -> None:
    truth = {"node_pointer": torch.tensor([[[2], [2]], [[2], [2]]], dtype=torch.int16)}
    logits = {"node_pointer": torch.zeros(2, 2, 3, 1)}
    fed = feed_hints([group(Type.POINTER)], truth, logits, torch.tensor([True, False]))["node_pointer"]
    assert fed.dtype == torch.int16
    assert fed.squeeze(-1).tolist() == [[2, 2], [0, 0]]


def test_soft_hints_are_probabilities() -> None:
    logits = torch.tensor([[[0.0], [2.0], [-2.0]]])
    torch.testing.assert_close(soften(group(Type.MASK), logits).flatten(), torch.tensor([0.5, 0.8808, 0.1192]), **CLOSE)
    chosen = torch.tensor([0.1173, 0.8668, 0.0159])  # e^0, e^2 and e^-2, over their sum
    torch.testing.assert_close(soften(group(Type.MASK_ONE), logits).flatten(), chosen, **CLOSE)
    assert torch.equal(soften(group(Type.SCALAR), logits), logits)
    classes = torch.zeros(1, 2, 4, 1)
    assert torch.equal(soften(group(Type.CATEGORICAL, 4), classes), torch.full_like(classes, 0.25))


def test_true_hints_among_soft_ones_are_of_the_same_form() -> None:
    truth = {"node_pointer": torch.tensor([[[2], [1], [2]]] * 2, dtype=torch.int16)}
    logits = {"node_pointer": torch.zeros(2, 3, 3, 1)}
    fed = feed_hints([group(Type.POINTER)], truth, logits, torch.tensor([True, False]), "soft")["node_pointer"]
    assert fed[0].squeeze(-1).tolist() == [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    torch.testing.assert_close(fed[1], torch.full((3, 3, 1), 1 / 3))
