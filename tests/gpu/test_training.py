"""Training on a CUDA device: graphs, fused kernels, resuming."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from relational_transformer.nn import kernels
from relational_transformer.processors.settings import TUNED
from relational_transformer.training import Protocol, RunFolder, TrainConfig, Trainer
from relational_transformer.training.session import train_together

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

PROTOCOL = Protocol(train_examples=200, examples=480, validation_interval=160, test_nodes=20)


def config(task: str = "bfs", **changes) -> TrainConfig:
    made = TrainConfig(task, "rt", TUNED["rt"], PROTOCOL, (0, 1, 2), precision="bf16", compile="off")
    return replace(made, **changes)


def run(config: TrainConfig, path: Path, stop_after: int | None = None) -> Trainer:
    folder = RunFolder(path)
    with folder.opened(config.as_dict()):
        trainer = Trainer(config, folder, torch.device("cuda"))
        for number, _ in enumerate(trainer.run(), start=1):
            if number == stop_after:
                break
        trainer.save()
    return trainer


@pytest.mark.parametrize("compile", ["off", "on"])
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, compile: str):
    whole = run(config(compile=compile), tmp_path / "whole")
    run(config(compile=compile), tmp_path / "stopped", stop_after=1)
    resumed = run(config(compile=compile), tmp_path / "stopped")
    assert torch.equal(resumed.fleet.values, whole.fleet.values)
    assert torch.equal(resumed.validation_scores, whole.validation_scores)


def test_graphs_and_streams_compute_what_the_cpu_does(tmp_path):
    ours = run(config(precision="fp32"), tmp_path / "cuda")
    folder = RunFolder(tmp_path / "cpu")
    with folder.opened(config(precision="fp32").as_dict()):
        reference = Trainer(config(precision="fp32"), folder, torch.device("cpu"))
        next(reference.run())
    torch.testing.assert_close(ours.losses[0].cpu(), reference.losses[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("precision", "compile"), [("tf32", "off"), ("bf16", "off"), ("bf16", "on")])
def test_kernels_train_like_the_plain_path(tmp_path, precision, compile):
    setting = config(precision=precision, compile=compile)
    with kernels.use_kernels(True):
        fused = run(setting, tmp_path / "fused")
    with kernels.use_kernels(False):
        plain = run(setting, tmp_path / "plain")
    torch.testing.assert_close(fused.losses[0], plain.losses[0], rtol=0.02, atol=0.02)


def test_fleets_side_by_side_equal_fleets_alone(tmp_path):
    runs = [(config(task), str(tmp_path / task)) for task in ("bfs", "binary_search")]
    together = train_together(runs, torch.device("cuda"))
    for (setting, _), result in zip(runs, together, strict=True):
        (alone,) = train_together([(setting, str(tmp_path / f"{setting.task}-alone"))], torch.device("cuda"))
        assert alone["seeds"] == result["seeds"]
