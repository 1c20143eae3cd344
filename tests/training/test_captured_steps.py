"""Training steps as captured graphs, emulated on a CPU: replays train as the steps themselves do, to the bit."""

from dataclasses import replace

import pytest
import torch

from relational_transformer.fleet.adam import Schedule
from relational_transformer.nn import kernels
from relational_transformer.processors.settings import find_settings
from relational_transformer.runs import RunFolder, Trainer
from relational_transformer.training import TrainConfig, fresh
from relational_transformer.training.mixed_step import MixedSteps
from relational_transformer.training.step import TrainingStep
from tests.fleet.replaying import CUDA, Recorder, fake_graphs
from tests.nn.kernels.whole_layer.emulation import COMPILER, emulator_in_use
from tests.training.small import make_trainer, small_config
from tests.training.test_modern import MODERN, modern_config


@pytest.fixture(autouse=True)
def _few_probes(monkeypatch):
    monkeypatch.setattr(fresh, "PROBES", 20)


def sizes_of(trainer: Trainer) -> tuple[TrainingStep, ...]:
    steps = trainer.task.steps
    return steps.sizes if isinstance(steps, MixedSteps) else (steps,)


def trained(config: TrainConfig, path, *, captured: bool) -> Trainer:
    """A run to its end, without the test."""
    with RunFolder(path).opened(config.as_dict()) as folder:
        trainer = make_trainer(config, folder)
        for size in sizes_of(trainer):
            if captured:
                size.graphs.device = CUDA
        for _ in trainer.run():
            pass
    return trainer


@pytest.mark.parametrize(
    "config",
    [small_config(), modern_config("bfs"), modern_config("insertion_sort")],
    ids=["paper", "modern", "permutations"],
)
def test_replays_train_as_the_steps_themselves(tmp_path, config: TrainConfig):
    plain = trained(config, tmp_path / "plain", captured=False)
    with fake_graphs() as graphs:
        replayed = trained(config, tmp_path / "replayed", captured=True)
    assert graphs.captured == sum(len(size.buckets) for size in sizes_of(replayed))
    assert torch.equal(replayed.fleet.values, plain.fleet.values)
    assert torch.equal(replayed.rows["loss"], plain.rows["loss"])
    assert not torch.equal(plain.rows["loss"][0], plain.rows["loss"][-1])


@pytest.mark.skipif(COMPILER is None, reason="the emulator needs g++ on x86-64")
def test_replays_of_layers_that_are_kernels_train_as_the_steps_themselves(tmp_path):
    """Sizes by turns, each with its kernels, through soft hints, with a clipped gradient and a schedule."""
    settings = replace(find_settings("rt", modern=True), num_layers=1, batch_size=2)
    schedule = Schedule(warmup_steps=2, decay="cosine")
    config = modern_config("bfs", settings=settings, precision="bf16", seeds=(0,), schedule=schedule)
    values = []
    with emulator_in_use(), kernels.use_kernels(True), fake_graphs() as graphs:
        for captured in (False, True):
            with RunFolder(tmp_path / str(captured)).opened(config.as_dict()) as folder:
                trainer = make_trainer(config, folder)
            trainer.task.load(0, 0)
            trainer.task.steps.recompute = False
            assert trainer.task.steps.layers_are_kernels
            for size in sizes_of(trainer):
                size.buckets = [max(size.hints_of_step)]
                size.hints_of_step = size.buckets * len(size.hints_of_step)
                size.graphs.device = CUDA if captured else size.graphs.device
            for number in range(3):  # one size twice
                trainer.task.steps.make(number)
            values.append(trainer.fleet.values)
    assert graphs.captured == len(sizes_of(trainer)) == 2
    assert torch.equal(*values)
    assert values[0].isfinite().all()


def test_steps_on_examples_longer_than_any_before_are_captured_again(tmp_path, monkeypatch):
    config = modern_config("bfs", protocol=replace(MODERN, examples=80))
    plain = trained(config, tmp_path / "plain", captured=False)
    monkeypatch.setattr(fresh, "room_for", lambda lengths: int(lengths.max()))
    monkeypatch.setattr(fresh, "buckets_of", lambda lengths, drawn_together: [2])
    with fake_graphs() as graphs:
        narrow = trained(config, tmp_path / "narrow", captured=True)
    assert graphs.captured > sum(len(size.buckets) for size in sizes_of(narrow))
    assert torch.equal(narrow.fleet.values, plain.fleet.values)


@pytest.mark.parametrize("refused", [lambda: torch.ones(1).item(), lambda: torch.rand(1), lambda: torch.tensor([1.0])])
def test_what_a_capture_cannot_do_is_refused(refused):
    with pytest.raises(RuntimeError, match="not permitted"), Recorder():
        refused()
