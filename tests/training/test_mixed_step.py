"""Steps of several sizes: as the plain ones where layers are kernels, and what is compiled for them."""

from dataclasses import replace

import pytest
import torch

from relational_transformer.nn import kernels
from relational_transformer.processors.settings import find_settings
from relational_transformer.runs import RunFolder
from relational_transformer.runs.trainer import Trainer
from relational_transformer.training import fresh
from relational_transformer.training.mixed_step import MixedSteps
from tests.nn.kernels.whole_layer.emulation import COMPILER, emulator_in_use
from tests.training.small import make_trainer
from tests.training.test_modern import MODERN, modern_config


@pytest.fixture(autouse=True)
def _few_probes(monkeypatch):
    monkeypatch.setattr(fresh, "PROBES", 20)


def loaded(trainer: Trainer) -> MixedSteps:
    """The steps of a trainer, with those of the first part loaded and nothing decided by the memory that is free."""
    trainer.task.load(0, 0)
    trainer.task.steps.recompute = False
    return trainer.task.steps


def gradients(steps: MixedSteps) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Losses [S], and the gradient of their sum, of the first step of every size."""
    found = []
    for size in steps.sizes:
        losses, values = size._forward(size.hints_of_step[0])
        found.append((losses.detach(), torch.autograd.grad(losses.sum(), values)[0]))
    return found


@pytest.mark.skipif(COMPILER is None, reason="the emulator needs g++ on x86-64")
@pytest.mark.parametrize("task", ["bfs", "insertion_sort", "segments_intersect"])
def test_steps_cut_at_their_layers_are_as_close_to_float64_as_whole_ones(tmp_path, task: str):
    settings = replace(find_settings("rt", modern=True), num_layers=1, batch_size=2)
    config = modern_config(task, settings=settings, precision="fp64")
    with RunFolder(tmp_path / "exact").opened({}) as folder, kernels.use_kernels(False):
        exact = make_trainer(config, folder)
        expected = gradients(loaded(exact))
    rough = replace(config, precision="bf16")
    with emulator_in_use(), kernels.use_kernels(True), RunFolder(tmp_path / "rough").opened({}) as folder:
        trainer = make_trainer(rough, folder)
        steps = loaded(trainer)
        assert steps.layers_are_kernels
        found = gradients(steps)
        steps.recompute = True  # the whole step in one piece
        of_whole = gradients(steps)
    for (losses, gradient), (_, whole), (true_losses, true_gradient) in zip(found, of_whole, expected, strict=True):
        torch.testing.assert_close(losses.double(), true_losses, rtol=0.02, atol=0.0)
        # All parameters together: through soft hints, rounding of one step goes on into all that follow.
        error, allowed = ((vector - true_gradient).norm() / true_gradient.norm() for vector in (gradient, whole))
        assert error <= 2 * allowed + 0.05


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch's compiler looks at it
def test_compiled_pieces_are_shared_and_train_as_the_plain_ones(tmp_path, traced):
    config = modern_config("insertion_sort", precision="fp64")
    engines = []
    for compile in ("off", "on"):
        with RunFolder(tmp_path / compile).opened({}) as folder:
            engines.append(loaded(make_trainer(replace(config, compile=compile), folder)))
    expected, found = (gradients(steps) for steps in engines)
    assert len(traced) == 2 * 4  # of each size the examples, encoded inputs, a step of the algorithm, the loss
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)


def test_steps_of_each_size_go_on_where_the_part_was_left(tmp_path):
    config = modern_config("bfs", protocol=replace(MODERN, train_lengths=(4, 5, 6), validation_interval=12))
    with RunFolder(tmp_path).opened({}) as folder:
        trainer = make_trainer(config, folder)
        places = []
        for position in range(5):
            trainer.task.load(0, position)
            places.append([int(size.position) for size in trainer.task.steps.sizes])
    assert places == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1], [2, 1, 1]]
