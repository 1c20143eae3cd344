"""Losses against their definition, written out in numpy for a whole trajectory at once."""

import numpy as np
import pytest
import torch

from relational_transformer.clrs.spec import Location, Type
from relational_transformer.reasoning import FeatureGroup
from relational_transformer.reasoning.losses import hint_counts, hint_losses, output_losses

B, N, T, C = 3, 4, 5, 3
LENGTHS = np.array([2, 5, 3])


def log_softmax(x: np.ndarray) -> np.ndarray:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def cross_entropy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))


def losses_and_masks(kind: Type, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By element, with choices on the last axis: the formulas of CLRS-30's hint loss."""
    if kind == Type.SCALAR:
        return (x - y) ** 2, np.ones_like(y)
    if kind == Type.MASK:
        return cross_entropy(x, y), (y != -1).astype(float)
    if kind == Type.POINTER:
        return -np.sum(np.eye(x.shape[-1])[y.astype(int)] * log_softmax(x), -1), np.ones(y.shape)
    loss = -np.sum(y * log_softmax(x), -1)
    return loss, (y == 1).any(-1).astype(float) if kind == Type.CATEGORICAL else np.ones(loss.shape)


def draw(kind: Type, leading: tuple[int, ...], location: Location) -> tuple[np.ndarray, np.ndarray]:
    """Logits and truth of one feature, choices on the last axis."""
    random = np.random.default_rng(0)
    shape = leading + {Location.GRAPH: (), Location.NODE: (N,), Location.EDGE: (N, N)}[location]
    if kind == Type.SCALAR:
        return random.normal(size=shape), random.normal(size=shape)
    if kind == Type.MASK:
        return random.normal(size=shape), random.integers(-1, 2, size=shape)
    if kind == Type.MASK_ONE:
        return random.normal(size=shape), np.eye(N)[random.integers(N, size=leading)]
    if kind == Type.POINTER:
        return random.normal(size=(*shape, N)), random.integers(N, size=shape)
    y = np.eye(C)[random.integers(C, size=shape)]
    y[random.random(shape) < 0.3] = [-1, 0, 0]
    return random.normal(size=(*shape, C)), y


def make_group(kind: Type, location: Location) -> FeatureGroup:
    return FeatureGroup(location, kind, C if kind == Type.CATEGORICAL else None, ("x",))


KINDS = [
    (Type.SCALAR, Location.NODE),
    (Type.SCALAR, Location.GRAPH),
    (Type.MASK, Location.EDGE),
    (Type.MASK_ONE, Location.NODE),
    (Type.CATEGORICAL, Location.NODE),
    (Type.CATEGORICAL, Location.EDGE),
    (Type.POINTER, Location.NODE),
    (Type.POINTER, Location.EDGE),
]


@pytest.mark.parametrize(("kind", "location"), KINDS)
def test_hint_losses_of_steps_add_up_to_the_loss_of_the_trajectory(kind: Type, location: Location) -> None:
    x, y = draw(kind, (T, B), location)  # x[t] predicts y[t + 1]; its last step is unused
    loss, mask = losses_and_masks(kind, x[:-1], y[1:])
    weight = (LENGTHS[None] > np.arange(1, T)[:, None]).reshape(T - 1, B, *(1,) * (loss.ndim - 2))
    expected = np.sum(loss * mask * weight) / np.sum(mask * weight)

    group = make_group(kind, location)
    logits, truth = torch.from_numpy(x).unsqueeze(-1), torch.from_numpy(y).unsqueeze(-1)
    is_target = torch.from_numpy(LENGTHS)[None] > torch.arange(1, T)[:, None]
    totals = hint_counts(group, truth[1:], is_target)
    total = sum(hint_losses(group, logits[t], truth[t + 1], is_target[t], totals) for t in range(T - 1))
    assert isinstance(total, torch.Tensor)
    torch.testing.assert_close(total, torch.tensor([expected]), rtol=1e-6, atol=0)


@pytest.mark.parametrize(("kind", "location"), KINDS)
def test_output_loss_is_the_mean_over_what_is_not_masked(kind: Type, location: Location) -> None:
    x, y = draw(kind, (B,), location)
    loss, mask = losses_and_masks(kind, x, y)
    expected = np.sum(loss * mask) / np.sum(mask)
    logits, truth = torch.from_numpy(x).unsqueeze(-1), torch.from_numpy(y).unsqueeze(-1)
    actual = output_losses(make_group(kind, location), logits, truth)
    torch.testing.assert_close(actual, torch.tensor([expected]), rtol=1e-6, atol=0)


def test_a_hint_that_is_never_a_target_costs_nothing() -> None:
    group = make_group(Type.MASK, Location.NODE)
    truth = torch.zeros(1, 2, N, 1)
    nobody = torch.zeros(1, 2, dtype=torch.bool)
    totals = hint_counts(group, truth, nobody)
    loss = hint_losses(group, torch.randn(2, N, 1), truth[0], nobody[0], totals)
    assert loss.item() == 0.0


@pytest.mark.parametrize("kind", [Type.POINTER, Type.MASK_ONE])
def test_what_all_logits_have_in_common_costs_the_gradient_nothing(kind: Type) -> None:
    """A choice that is all but certain, among logits far from zero: what it gets is what the others lose."""
    group = FeatureGroup(Location.NODE, kind, None, ("x",))
    logits = torch.tensor([0.0, -11.0, -12.0, -13.0]).add(1000.0).requires_grad_()
    truth = torch.tensor([[0]]) if kind == Type.POINTER else torch.tensor([[1.0], [0.0], [0.0], [0.0]])
    shape = (1, 1, 4, 1) if kind == Type.POINTER else (1, 4, 1)
    loss = output_losses(group, logits.view(shape), truth.view(1, -1, 1)).sum()
    (gradient,) = torch.autograd.grad(loss, logits)
    exact = logits.detach().double().softmax(0) - torch.tensor([1.0, 0.0, 0.0, 0.0])
    torch.testing.assert_close(gradient.double(), exact, rtol=0.01, atol=1e-9)
    assert abs(gradient.sum()) < 1e-7


@pytest.mark.parametrize("kind", [Type.POINTER, Type.MASK_ONE, Type.CATEGORICAL])
@pytest.mark.parametrize("margin", [1.0, 20.0, 60.0])
def test_the_gradient_adds_up_to_nothing_however_sure_the_choice_is(kind: Type, margin: float) -> None:
    """Else Adam, who makes steps of one size of any gradient, would move all logits together, on and on."""
    group = FeatureGroup(Location.NODE, kind, 4 if kind == Type.CATEGORICAL else None, ("x",))
    logits = torch.tensor([0.0, -margin, -margin - 1, -margin - 2], requires_grad=True)
    truth = torch.tensor([0]) if kind == Type.POINTER else torch.tensor([1.0, 0.0, 0.0, 0.0])
    shapes = {Type.POINTER: ((1, 1, 4, 1), (1, 1, 1)), Type.MASK_ONE: ((1, 4, 1), (1, 4, 1))}
    of_logits, of_truth = shapes.get(kind, ((1, 1, 4, 1), (1, 1, 4, 1)))
    (gradient,) = torch.autograd.grad(output_losses(group, logits.view(of_logits), truth.view(of_truth)).sum(), logits)
    assert gradient[1] > 0
    assert abs(gradient.sum()) <= 1e-6 * gradient.abs().max()


def test_losses_are_in_single_precision_at_least() -> None:
    group = make_group(Type.POINTER, Location.NODE)
    logits = torch.randn(2, N, N, 1, dtype=torch.bfloat16)
    loss = output_losses(group, logits, torch.zeros(2, N, 1, dtype=torch.int16))
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, output_losses(group, logits.float(), torch.zeros(2, N, 1, dtype=torch.int16)))


@pytest.mark.parametrize("location", [Location.NODE, Location.EDGE])
def test_absent_nodes_cost_nothing(location: Location) -> None:
    group = make_group(Type.SCALAR, location)
    shape = (2, N, 1) if location == Location.NODE else (2, N, N, 1)
    logits, truth = torch.randn(shape), torch.randn(shape)
    node_mask = torch.tensor([[True] * 2 + [False] * (N - 2)] * 2)
    cut = (slice(None),) + (slice(2),) * (len(shape) - 2)
    masked = output_losses(group, logits, truth, node_mask)
    torch.testing.assert_close(masked, output_losses(group, logits[cut], truth[cut]))
