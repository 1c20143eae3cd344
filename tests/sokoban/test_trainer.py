"""Whole runs: they learn, they resume to the same bits, they say what they did."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from relational_transformer.sokoban import Recipe, SokobanConfig, train
from relational_transformer.sokoban.trainer import UPDATES_AT_ONCE, SokobanTrainer
from relational_transformer.training import RunFolder
from relational_transformer.training.checkpoint import read_checkpoint
from tests.sokoban.small import LONG_CORRIDOR, SETTINGS, run_to_the_end, small_config, write_levels

CPU = torch.device("cpu")


@pytest.mark.parametrize("model", ["transformer", "rt"])
def test_an_agent_that_trains_on_one_level_solves_it(tmp_path, model: str):
    recipe = Recipe(num_games=8, window=8, learning_rate=3e-3, steps=3_840, report_interval=1_280)
    config = small_config(write_levels(tmp_path / "levels", LONG_CORRIDOR), model=model, recipe=recipe)
    _, result = run_to_the_end(config, tmp_path / "run")
    (row,) = result["seeds"]
    assert row["test_greedy"] == row["test_of_last"] == 1.0
    # A solution has six steps, so that 213 games fit into 1,280 steps; chance needs about fifty steps for one.
    games = [line["games"][0] for line in RunFolder(tmp_path / "run").read_metrics()]
    assert games[0] < 60
    assert games[-1] > 150


def test_a_result_says_all_that_is_needed(tmp_path):
    config = small_config(write_levels(tmp_path / "levels"), seeds=(3, 5))
    trainer, result = run_to_the_end(config, tmp_path / "run")
    assert SokobanConfig.from_dict(json.loads(json.dumps(result["config"]))) == config
    assert [row["seed"] for row in result["seeds"]] == [3, 5]
    for row in result["seeds"]:
        assert not row["failed"]
        assert all(0.0 <= row[name] <= 1.0 for name in ("test", "test_greedy", "test_of_last", "validation"))
    assert result["parameters"] == sum(parameter.numel() for parameter in trainer.agent.parameters())
    assert result["levels"] == {"train": 2, "test": 2}
    assert {"commit", "hardware", "versions", "seconds"} <= result.keys()
    rows = RunFolder(tmp_path / "run").read_metrics()
    assert [row["examples"] for row in rows] == [120, 240, 360, 480]
    assert sum(row["games"][0] for row in rows) >= 3


def test_a_run_stopped_anywhere_goes_on_to_the_same_bits(tmp_path):
    config = small_config(write_levels(tmp_path / "levels"), seeds=(0, 1))
    config = replace(config, recipe=replace(config.recipe, steps=480, report_interval=240))
    whole, expected = run_to_the_end(config, tmp_path / "whole")
    folder = RunFolder(tmp_path / "stopped")
    for stop in (1, 2):  # in the middle of a part, and again
        with folder.opened(config.as_dict()):
            trainer = SokobanTrainer(config, folder, CPU)
            running = trainer.run()
            for _ in range(stop):
                next(running)
            trainer.save()
    assert trainer.updates == 20 + UPDATES_AT_ONCE
    resumed, result = run_to_the_end(config, folder.path)
    assert torch.equal(resumed.fleet.values, whole.fleet.values)
    assert torch.equal(resumed.best, whole.best)
    assert result["seeds"] == expected["seeds"]
    assert folder.metrics.read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()


def test_a_finished_run_is_not_run_again_and_other_settings_are_refused(tmp_path):
    config = small_config(write_levels(tmp_path / "levels"))
    first = train(config, str(tmp_path / "run"), CPU)
    reports = []
    assert train(config, str(tmp_path / "run"), CPU, report=reports.append) == json.loads(json.dumps(first))
    assert not reports
    with pytest.raises(ValueError, match=r"model was transformer, is rt"):
        train(replace(config, model="rt"), str(tmp_path / "run"), CPU)


def test_what_cannot_run_leaves_no_folder(tmp_path):
    with pytest.raises(ValueError, match="no Boxoban levels"):
        train(small_config(str(tmp_path / "nothing")), str(tmp_path / "run"), CPU)
    with pytest.raises(ValueError, match="num_heads must divide size=16"):
        replace(SETTINGS, num_heads=3)
    assert not (tmp_path / "run").exists()


def test_a_short_last_interval_is_shown_but_does_not_compete(tmp_path):
    """Ten updates are an interval, and eleven the run; in the last one all games are made to end well."""
    config, folder = small_config(write_levels(tmp_path / "levels")), RunFolder(tmp_path / "run")
    config = replace(config, recipe=replace(config.recipe, steps=132))
    with folder.opened(config.as_dict()):
        trainer = SokobanTrainer(config, folder, CPU)
        running = trainer.run()
        next(running)
        after_whole_interval = trainer.fleet.values.clone()
        trainer.engine.finished += 5
        trainer.engine.solved += 5
        for _ in running:
            pass
        assert trainer.progress().solved == [1.0]
        (row,) = trainer.finish()["seeds"]
    assert torch.equal(trainer.best, after_whole_interval)
    assert row["examples_of_best"] == 120
    assert row["validation"] < 1.0
    assert [line["validation"][0] for line in folder.read_metrics()][-1] == 1.0


def test_the_only_interval_competes_however_short_it_is(tmp_path):
    config = small_config(write_levels(tmp_path / "levels"))
    trainer, result = run_to_the_end(replace(config, recipe=replace(config.recipe, steps=84)), tmp_path / "run")
    assert torch.equal(trainer.best, trainer.fleet.values)
    assert result["seeds"][0]["examples_of_best"] == 84


def test_a_failed_seed_is_reported_as_failed(tmp_path):
    config, folder = small_config(write_levels(tmp_path / "levels"), seeds=(0, 1)), RunFolder(tmp_path / "run")
    with folder.opened(config.as_dict()):
        trainer = SokobanTrainer(config, folder, CPU)
        with torch.no_grad():
            trainer.fleet.parameters["value.bias"][1] = torch.nan
        for _ in trainer.run():
            pass
        rows = trainer.finish()["seeds"]
    assert [row["failed"] for row in rows] == [False, True]
    assert rows[1]["test"] is None
    assert folder.read_metrics()[-1]["loss"][1] is None


PROGRAM = """
import sys, torch
from relational_transformer.sokoban import train
from tests.sokoban.small import small_config
train(small_config(sys.argv[1]), sys.argv[2], torch.device("cpu"), checkpoint_seconds=0)
"""


def start(levels: str, out: Path) -> subprocess.Popen:
    repository = Path(__file__).parents[2]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM, levels, str(out)]
    return subprocess.Popen(command, cwd=repository, env=environment, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_run_that_is_stopped_and_killed_goes_on_to_the_same_numbers(tmp_path):
    levels, out = write_levels(tmp_path / "levels"), tmp_path / "run"
    whole = train(small_config(levels), str(tmp_path / "whole"), CPU)
    for number in (signal.SIGTERM, signal.SIGKILL):
        known = (out / "checkpoint.safetensors").stat().st_mtime_ns if number == signal.SIGKILL else None
        process = start(levels, out)
        while process.poll() is None and not _has_newer(out / "checkpoint.safetensors", known):
            time.sleep(0.01)
        process.send_signal(number)
        _, errors = process.communicate()
        assert process.returncode != 0, "the run ended before it could be stopped"
        assert number == signal.SIGKILL or "stopped by SIGTERM" in errors
    process = start(levels, out)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert json.loads((out / "result.json").read_text())["seeds"] == json.loads(json.dumps(whole["seeds"]))
    ours, expected = (read_checkpoint(path / "checkpoint.safetensors")[0] for path in (out, tmp_path / "whole"))
    assert all(torch.equal(ours[name], expected[name]) for name in expected)


def _has_newer(path: Path, known: int | None) -> bool:
    return path.exists() and path.stat().st_mtime_ns != known
