"""A step cut in two: what is computed once, what is left behind, and what is not to be touched."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from relational_transformer.training.hoisted.gradients import side_by_side, weight_gradients
from relational_transformer.training.hoisted.splitting import Pieces, split
from relational_transformer.training.hoisted.terms import Kind
from relational_transformer.training.hoisted.tracing import trace

SEEDS, ROWS, SIZE = 2, 5, 4
aten = torch.ops.aten
Function = Callable[[Tensor, Tensor, Tensor], Tensor]


def linear(values: Tensor, given: Tensor, hidden: Tensor) -> Tensor:
    return (torch.bmm(hidden, matrix(values)) + vector(values)).tanh()


def reads_inputs(values: Tensor, given: Tensor, hidden: Tensor) -> Tensor:
    """Encoded inputs, a product of what is fixed, are added to what changes."""
    return (torch.bmm(given, matrix(values)).relu() + hidden).tanh()


def of_columns(values: Tensor, given: Tensor, hidden: Tensor) -> Tensor:
    return (hidden[..., :1] * vector(values) + hidden[..., 1:2] * vector(values).exp() + hidden).tanh()


def scaled(values: Tensor, given: Tensor, hidden: Tensor) -> Tensor:
    return (hidden.tanh() * vector(values) + vector(values)).sin()


def dot(values: Tensor, given: Tensor, hidden: Tensor) -> Tensor:
    return hidden.tanh() + (hidden * vector(values) + hidden.sin() * vector(values)).sum(-1).unsqueeze(-1)


def used_in_two_ways(values: Tensor, given: Tensor, hidden: Tensor) -> Tensor:
    return torch.bmm(hidden, matrix(values)).tanh() + torch.bmm(
        matrix(values).repeat(1, 2, 1)[:, :ROWS], matrix(hidden)
    )


def written_into(values: Tensor, given: Tensor, hidden: Tensor) -> Tensor:
    noted = torch.zeros_like(given) + vector(values)
    noted.mul_(hidden)
    product = torch.bmm(hidden, matrix(values))
    product.add_(noted)
    return product.tanh()


def written_into_a_part(values: Tensor, given: Tensor, hidden: Tensor) -> Tensor:
    noted = torch.zeros_like(given) + vector(values)
    noted[:, 1:3].mul_(hidden[:, :2])
    return (torch.bmm(hidden, matrix(values)) + noted).tanh()


def detached(values: Tensor, given: Tensor, hidden: Tensor) -> Tensor:
    return (torch.bmm(hidden, matrix(values).detach()) + vector(values)).tanh()


def added_twice(values: Tensor, given: Tensor, hidden: Tensor) -> Tensor:
    bias = vector(values)
    return (torch.bmm(hidden, matrix(values)) + bias + bias).tanh()


def of_encoded(values: Tensor, given: Tensor, hidden: Tensor) -> Tensor:
    """A Linear of features: inputs, and columns times what is learnt."""
    features = given + hidden[..., :1] * vector(values) + hidden[..., 1:2] * vector(values).exp() + vector(values).sin()
    return (torch.bmm(features, matrix(values)) + hidden).tanh()


def of_padded(values: Tensor, given: Tensor, hidden: Tensor) -> Tensor:
    features = torch.nn.functional.pad(given[..., :3] + hidden[..., :1] * vector(values)[..., :3], (0, 1))
    return torch.bmm(features, matrix(values)).tanh() + hidden


def of_encoded_once_more(values: Tensor, given: Tensor, hidden: Tensor) -> Tensor:
    features = given + hidden[..., :1] * vector(values)
    features.mul_(hidden)
    return torch.bmm(features, matrix(values)).tanh()


def doubled(values: Tensor, given: Tensor, hidden: Tensor) -> Tensor:
    product = torch.bmm(hidden, matrix(values))
    return (product + product).tanh() + product


FUNCTIONS = (
    *(linear, reads_inputs, of_columns, scaled, dot, used_in_two_ways),
    *(written_into, written_into_a_part, detached, doubled, added_twice),
    *(of_encoded, of_padded, of_encoded_once_more),
)


def matrix(values: Tensor) -> Tensor:
    return values.flatten(1)[:, : SIZE * SIZE].view(SEEDS, SIZE, SIZE).transpose(1, 2)


def vector(values: Tensor) -> Tensor:
    return values.flatten(1)[:, -SIZE:].view(SEEDS, 1, SIZE)


def make_tensors() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    values = torch.randn(SEEDS, SIZE * SIZE + SIZE, dtype=torch.float64, requires_grad=True)
    given, hidden = torch.randn(2, SEEDS, ROWS, SIZE, dtype=torch.float64)
    return values, given, hidden


def cut(function: Function) -> Pieces:
    values, given, hidden = make_tensors()
    return split(trace(lambda *tensors: [function(*tensors)], [values, given, hidden.requires_grad_()], False), 2)


def targets(graph: torch.fx.GraphModule) -> list[object]:
    return [node.target for node in graph.graph.nodes]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_steps_of_both_pieces_have_the_results_and_gradients_of_the_whole(function: Function):
    values, given, hidden = make_tensors()
    expected = hidden
    for _ in range(3):
        expected = function(values, given, expected)
    (true_gradient,) = torch.autograd.grad(expected.sum(), values)

    pieces, (result, gradient) = cut(function), (hidden, torch.zeros_like(values))
    learnt = pieces.once(values, given)
    fixed = [tensor.detach() for tensor in learnt]
    others = [one.detach().requires_grad_() for one in learnt[pieces.num_weights :][: pieces.has_others]]
    rest = fixed[pieces.num_weights + pieces.has_others :]
    taps = [[torch.zeros_like(tap, device="cpu").requires_grad_() for tap in _empty(pieces.taps)] for _ in range(3)]
    rows = []
    for of_step in taps:
        result, *left = pieces.step(*fixed[: pieces.num_weights], *others, *rest, *of_step, result)
        rows.append(left)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)

    leaves = [*others, *(tap for of_step in taps for tap in of_step)]
    of_others, of_taps = [], []
    if leaves:
        found = list(torch.autograd.grad(result.sum(), leaves))
        of_others, of_taps = found[: len(others)], found[len(others) :]
    steps = [of_taps[number * len(pieces.taps) :][: len(pieces.taps)] for number in range(3)]
    weights = weight_gradients(pieces.terms, fixed[: pieces.num_weights], side_by_side(rows), side_by_side(steps))
    back = [(one, of) for one, of in zip(learnt, [*weights, *of_others], strict=False) if one.requires_grad]
    (gradient,) = torch.autograd.grad([one for one, _ in back], values, [of for _, of in back])
    torch.testing.assert_close(gradient, true_gradient, rtol=0, atol=1e-11)


def _empty(likes: Sequence[Tensor]) -> list[Tensor]:
    return [torch.empty(like.shape, dtype=like.dtype) for like in likes]


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        (linear, {Kind.PRODUCT, Kind.SUM}), (reads_inputs, {Kind.SUM}), (of_columns, {Kind.PRODUCT}),
        (scaled, {Kind.SCALE, Kind.SUM}), (dot, {Kind.DOT}), (used_in_two_ways, {Kind.PRODUCT}), (detached, {Kind.SUM}),
        (doubled, {Kind.PRODUCT}), (of_encoded, {Kind.PRODUCT, Kind.SUM}), (of_padded, {Kind.PRODUCT, Kind.SUM}),
    ],
)  # fmt: skip
def test_terms_are_found(function: Function, kinds: set[Kind]):
    assert {term.kind for term in cut(function).terms} == kinds


def test_a_product_and_what_is_added_to_it_leave_one_gradient_behind():
    pieces = cut(linear)
    assert (len(pieces.terms), len(pieces.taps), len(pieces.rows)) == (2, 1, 1)
    assert not pieces.has_others


def test_what_depends_on_fixed_tensors_alone_is_not_in_the_step():
    pieces = cut(reads_inputs)
    assert aten.bmm.default in targets(pieces.once)
    assert not {aten.bmm.default, aten.relu.default} & set(targets(pieces.step))


@pytest.mark.parametrize("function", [of_encoded, of_padded])
def test_a_product_of_features_is_a_few_multiples_in_a_step(function: Function):
    pieces = cut(function)
    assert aten.bmm.default not in targets(pieces.step)
    assert len(pieces.taps) == 1
    assert all(row.shape[-1] == 1 for row in pieces.rows)
    assert not pieces.has_others


def test_a_product_of_what_was_written_into_is_left_as_it_is():
    assert aten.bmm.default in targets(cut(of_encoded_once_more).step)


def test_what_is_learnt_and_used_otherwise_is_handed_to_every_step():
    pieces = cut(used_in_two_ways)
    assert pieces.has_others
    assert len(pieces.terms) == 1


def test_what_is_written_into_is_made_anew_in_every_step():
    assert aten.mul_.Tensor in targets(cut(written_into).step)
    assert aten.mul_.Tensor not in targets(cut(written_into).once)


def test_chance_decides_anew_in_every_step():
    pieces = cut(lambda values, given, hidden: torch.bmm(hidden, torch.dropout(matrix(values), 0.5, True)))
    dropping = [target for target in targets(pieces.step) if "bernoulli" in str(target) or "dropout" in str(target)]
    assert dropping
    assert not [target for target in targets(pieces.once) if target in dropping]
