"""Sokoban on a CUDA device: recorded updates compute what the CPU does, and resume to the same bits."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from relational_transformer.runs import Trainer
from relational_transformer.sokoban import AgentSettings, Recipe, SokobanConfig, load_splits
from tests.sokoban.small import CORRIDOR, ROOMS, open_trainer, write_levels

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

RECIPE = Recipe(num_games=8, size_classes=2, learning_rate=1e-4, steps=8 * 4 * 40, report_interval=8 * 4 * 20)
SETTINGS = AgentSettings(size=64, num_layers=3, num_heads=4, memo_size=64, decision_size=96, edge_size=32)


def config(levels: Path, **changes) -> SokobanConfig:
    folder = str(levels) if levels.exists() else write_levels(levels, 2 * CORRIDOR + ROOMS)
    identity = load_splits(folder, SokobanConfig.test_levels).identity
    made = SokobanConfig("rt", RECIPE, (0, 1), identity, settings=SETTINGS, precision="fp32", compile="off")
    return replace(made, **changes)


def run(config: SokobanConfig, path: Path, device: str = "cuda", stop_after: int | None = None) -> Trainer:
    with open_trainer(config, path, str(path.parent / "levels"), device) as trainer:
        for number, _ in enumerate(trainer.run(), start=1):
            if number == stop_after:
                break
        trainer.save()
    return trainer


@pytest.mark.parametrize("model", ["transformer", "rt"])
@pytest.mark.parametrize("compile", ["off", "on"])
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, model: str, compile: str):
    setting = config(tmp_path / "levels", model=model, compile=compile)
    whole = run(setting, tmp_path / "whole")
    run(setting, tmp_path / "stopped", stop_after=1)
    resumed = run(setting, tmp_path / "stopped")
    assert torch.equal(resumed.fleet.values, whole.fleet.values)
    for column, values in whole.rows.items():
        assert torch.equal(resumed.rows[column], values), column


@pytest.mark.parametrize("model", ["transformer", "rt"])
def test_recorded_updates_compute_what_the_cpu_does(tmp_path, model: str):
    setting = config(tmp_path / "levels", model=model, precision="fp64")
    ours, reference = run(setting, tmp_path / "cuda"), run(setting, tmp_path / "cpu", device="cpu")
    for column, values in reference.rows.items():
        torch.testing.assert_close(ours.rows[column].cpu(), values, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_a_whole_run_ends_with_scores(tmp_path, precision: str):
    trainer = run(config(tmp_path / "levels", precision=precision, compile="on"), tmp_path / "run")
    result = trainer.finish()
    assert [row["failed"] for row in result["seeds"]] == [False, False]
