"""Scores of pointers by their kernel against float64, small enough for Triton's interpreter."""

from dataclasses import replace

import pytest
import torch

from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.fleet import Fleet, initialise
from relational_transformer.nn import kernels
from relational_transformer.nn.kernels import pointers
from relational_transformer.nn.kernels.pointers import pointer_scores_backward_operator, pointer_scores_operator
from relational_transformer.processors import find_settings
from relational_transformer.reasoning.build import build_network
from relational_transformer.training import Protocol
from relational_transformer.training.data import draw, load_split, make_split
from relational_transformer.training.step import TrainingStep
from tests.nn.kernels.cases import DEVICE, PointerCase, assert_at_most_twice_the_plain_error, output_and_gradients

CPU = torch.device("cpu")
CASES = [
    PointerCase(rows=1, choices=1, channels=3),
    PointerCase(rows=9, choices=3, channels=20, graphs=2),
    PointerCase(rows=16, choices=4, channels=64, features=2, seeds=2, graphs=2),
    PointerCase(rows=25, choices=5, channels=72, features=2, seeds=3),
    PointerCase(rows=3, choices=65, channels=16),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_scores_and_gradients_are_as_exact_as_the_plain_path(case: PointerCase, dtype: torch.dtype):
    assert_at_most_twice_the_plain_error(case, dtype)


@pytest.mark.parametrize("case", [replace(CASES[1], graphs=0), replace(CASES[1], choices=0)], ids=str)
def test_nothing_to_score_has_gradients_of_zero(case: PointerCase):
    inputs, (fused, _) = case.inputs(torch.float32), case.functions()
    gradient = torch.zeros(1, case.graphs, 9, case.choices, 1, device=DEVICE)
    scores, *gradients = output_and_gradients(fused, inputs, gradient)
    assert scores.numel() == 0
    assert [tensor.shape for tensor in gradients] == [tensor.shape for tensor in inputs]
    assert not any(tensor.any() for tensor in gradients)


def test_a_row_that_is_not_a_number_has_scores_that_are_none():
    inputs, (fused, _) = CASES[1].inputs(torch.float32), CASES[1].functions()
    inputs[0][0, 1, 2, 0, 7] = torch.nan
    assert fused(*inputs).isnan().nonzero()[:, :3].unique(dim=0).tolist() == [[0, 1, 2]]


def test_rows_shared_out_to_many_programs_give_the_same(monkeypatch):
    case = PointerCase(rows=50, choices=4, channels=16)
    inputs, (fused, _) = case.inputs(torch.float32), case.functions()
    gradient = torch.randn(1, 1, 50, 4, 1, device=DEVICE)
    results = []
    for programs in (1, 3, 1000):
        monkeypatch.setattr(pointers, "PROGRAMS", programs)
        results.append(output_and_gradients(fused, inputs, gradient))
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5)


def test_the_operators_are_what_compilers_expect():
    rows, choices, weight = (tensor.requires_grad_() for tensor in CASES[1].inputs(torch.float32))
    torch.library.opcheck(pointer_scores_operator, (rows, choices, weight))
    inputs = [tensor.detach() for tensor in (rows, choices, weight)]
    gradient = torch.randn(1, 2, 9, 3, 1, device=DEVICE)
    torch.library.opcheck(pointer_scores_backward_operator, (gradient, *inputs))


@pytest.mark.parametrize("task", ["matrix_chain_order", "floyd_warshall"])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch's compiler looks at it
def test_a_fleet_that_points_from_edges_learns_as_on_the_plain_path(task: str, compiled: bool, request, monkeypatch):
    if compiled:
        request.getfixturevalue("traced")
    settings = replace(find_settings("pgn"), hidden_size=8)
    models = [initialise(lambda: build_network(task, settings), seed) for seed in range(2)]
    split = load_split(models[0], make_split(task, "train", Protocol(train_examples=4, train_nodes=4)), CPU)
    called = []
    forward = pointers.pointer_scores_forward
    monkeypatch.setattr(pointers, "pointer_scores_forward", lambda *tensors: called.append(1) or forward(*tensors))
    results = []
    for fused in (False, True):
        torch.compiler.reset()
        monkeypatch.setattr(kernels, "scores_pointers", lambda *_, fused=fused: fused)
        fleet = Fleet(models, CPU)
        options = {"batch_size": 2, "precision": "fp32", "compiled": compiled and fused}
        engine = TrainingStep(models[0], fleet, split, Adam(fleet, 1e-3), **options)
        engine.load(draw((0, 1), 0, 1, 2, len(split), split.num_steps - 1, 0.5))
        losses, values = engine._forward(3)
        results += [losses, *torch.autograd.grad(losses.sum(), values)]
        assert bool(called) == fused
    for plain, fused in zip(results[:2], results[2:], strict=True):
        torch.testing.assert_close(fused, plain, rtol=1e-4, atol=1e-5)
