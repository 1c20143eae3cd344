"""Whole runs: they learn, they resume to the same bits, they say what they did."""

import json
from dataclasses import asdict, replace

import pytest
import torch

from relational_transformer.runs import RunFolder
from relational_transformer.sokoban import Recipe, SokobanConfig, load_splits
from tests.sokoban.small import (
    LONG_CORRIDOR,
    SETTINGS,
    open_trainer,
    run_to_the_end,
    small_config,
    train_run,
    write_levels,
)  # fmt: skip

CPU = torch.device("cpu")


@pytest.mark.parametrize("model", ["transformer", "rt"])
def test_an_agent_that_trains_on_one_level_solves_it(tmp_path, model: str):
    recipe = Recipe(num_games=8, window=8, learning_rate=3e-3, steps=3_840, report_interval=1_280)
    levels = write_levels(tmp_path / "levels", LONG_CORRIDOR)
    _, result = run_to_the_end(small_config(levels, model=model, recipe=recipe), tmp_path / "run", levels)
    (row,) = result["seeds"]
    assert row["test_greedy"] == row["test_of_last"] == 1.0
    # A solution has six steps, so that 213 games fit into 1,280 steps; chance needs about fifty steps for one.
    games = [line["games"][0] for line in RunFolder(tmp_path / "run").read_metrics()]
    assert games[0] < 60
    assert games[-1] > 150


def test_a_result_says_all_that_is_needed(tmp_path):
    levels = write_levels(tmp_path / "levels")
    config = small_config(levels, seeds=(3, 5))
    trainer, result = run_to_the_end(config, tmp_path / "run", levels)
    assert SokobanConfig.from_dict(json.loads(json.dumps(result["config"]))) == config
    assert [row["seed"] for row in result["seeds"]] == [3, 5]
    for row in result["seeds"]:
        assert not row["failed"]
        assert all(0.0 <= row[name] <= 1.0 for name in ("test", "test_greedy", "test_of_last", "validation"))
    assert result["parameters"] == sum(parameter.numel() for parameter in trainer.model.parameters())
    assert result["levels"] == asdict(load_splits(levels, 1_000).identity)
    assert (result["levels"]["train"], result["levels"]["test"]) == (2, 2)
    assert str(tmp_path) not in json.dumps(result)
    assert {"commit", "hardware", "versions", "seconds"} <= result.keys()
    rows = RunFolder(tmp_path / "run").read_metrics()
    assert [row["examples"] for row in rows] == [120, 240, 360, 480]
    assert sum(row["games"][0] for row in rows) >= 3


def test_a_run_stopped_anywhere_goes_on_to_the_same_bits(tmp_path):
    levels = write_levels(tmp_path / "levels")
    config = small_config(levels, seeds=(0, 1))
    config = replace(config, recipe=replace(config.recipe, steps=480, report_interval=240))
    whole, expected = run_to_the_end(config, tmp_path / "whole", levels)
    folder = RunFolder(tmp_path / "stopped")
    for stop in (1, 2):  # in the middle of a part, and again
        with open_trainer(config, folder.path, levels) as trainer:
            running = trainer.run()
            for _ in range(stop):
                next(running)
            trainer.save()
    assert trainer.steps == 20 + 16
    resumed, result = run_to_the_end(config, folder.path, levels)
    assert torch.equal(resumed.fleet.values, whole.fleet.values)
    assert torch.equal(resumed.best, whole.best)
    assert result["seeds"] == expected["seeds"]
    assert folder.metrics.read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()


def test_a_finished_run_is_not_run_again_and_other_settings_are_refused(tmp_path):
    levels = write_levels(tmp_path / "levels")
    config = small_config(levels)
    first = train_run(config, str(tmp_path / "run"), levels=load_splits(levels, 1_000))
    reports = []
    assert train_run(config, str(tmp_path / "run"), report=reports.append) == json.loads(json.dumps(first))
    assert not reports
    with pytest.raises(ValueError, match=r"model was transformer, is rt"):
        train_run(replace(config, model="rt"), str(tmp_path / "run"))


@pytest.mark.parametrize("split", ["train", "test"])
def test_what_cannot_run_leaves_no_folder(tmp_path, split: str):
    levels = write_levels(tmp_path / "levels")
    config = small_config(levels)
    given = load_splits(levels, 1_000)
    with pytest.raises(ValueError, match=f"the {split} levels of .* are not those of the run: 1 of digest .*, not 2"):
        train_run(config, str(tmp_path / "run"), levels=replace(given, **{split: getattr(given, split)[0]}))
    with pytest.raises(ValueError, match="those of a Boxoban folder: give it"):
        train_run(config, str(tmp_path / "run"))
    with pytest.raises(ValueError, match="the configuration has generated levels"):
        train_run(replace(config, levels=None), str(tmp_path / "run"), levels=given)
    with pytest.raises(ValueError, match="num_heads must divide size=16"):
        replace(SETTINGS, num_heads=3)
    assert not (tmp_path / "run").exists()


def test_the_same_levels_elsewhere_are_the_same_run_and_changed_ones_are_not(tmp_path):
    here, there = write_levels(tmp_path / "here"), write_levels(tmp_path / "there")
    config, out = small_config(here), tmp_path / "run"
    config = replace(config, recipe=replace(config.recipe, steps=240))
    assert replace(small_config(there), recipe=config.recipe) == config
    with open_trainer(config, out, here) as trainer:
        next(trainer.run())
        trainer.save()
    (tmp_path / "there" / "train" / "000.txt").write_text(LONG_CORRIDOR)
    changed = load_splits(there, 1_000)
    with pytest.raises(ValueError, match=r"a run with other settings \(levels.train was 2, is 1; levels.train_dig"):
        train_run(replace(config, levels=changed.identity), str(out), levels=changed)
    train_run(config, str(out), levels=load_splits(here, 1_000))
    assert str(tmp_path) not in RunFolder(out).config.read_text() + RunFolder(out).result.read_text()


def test_a_run_finds_its_levels_again_and_notices_that_they_changed(tmp_path):
    levels, out = write_levels(tmp_path / "levels"), tmp_path / "run"
    config = small_config(levels)
    train_run(config, str(out), levels=load_splits(levels, 1_000))
    RunFolder(out).result.unlink()
    assert train_run(config, str(out))["levels"]["train"] == 2
    RunFolder(out).result.unlink()
    (tmp_path / "levels" / "train" / "001.txt").write_text(LONG_CORRIDOR)
    with pytest.raises(ValueError, match=r"the train levels of .*levels are not those of the run: 3 of digest"):
        train_run(config, str(out))


def test_a_short_last_interval_is_shown_but_does_not_compete(tmp_path):
    """Ten updates are an interval, and eleven the run; in the last one all games are made to end well."""
    levels = write_levels(tmp_path / "levels")
    config = small_config(levels)
    config = replace(config, recipe=replace(config.recipe, steps=132))
    with open_trainer(config, tmp_path / "run", levels) as trainer:
        running = trainer.run()
        next(running)
        after_whole_interval = trainer.fleet.values.clone()
        trainer.task.steps.finished += 5
        trainer.task.steps.solved += 5
        for _ in running:
            pass
        assert trainer.progress().validation == [1.0]
        (row,) = trainer.finish()["seeds"]
    assert torch.equal(trainer.best, after_whole_interval)
    assert row["examples_of_best"] == 120
    assert row["validation"] < 1.0
    assert RunFolder(tmp_path / "run").read_metrics()[-1]["validation"] == [1.0]


def test_the_only_interval_competes_however_short_it_is(tmp_path):
    levels = write_levels(tmp_path / "levels")
    config = small_config(levels)
    config = replace(config, recipe=replace(config.recipe, steps=84))
    trainer, result = run_to_the_end(config, tmp_path / "run", levels)
    assert torch.equal(trainer.best, trainer.fleet.values)
    assert result["seeds"][0]["examples_of_best"] == 84


def test_a_failed_seed_is_reported_as_failed(tmp_path):
    levels = write_levels(tmp_path / "levels")
    with open_trainer(small_config(levels, seeds=(0, 1)), tmp_path / "run", levels) as trainer:
        with torch.no_grad():
            trainer.fleet.parameters["value.bias"][1] = torch.nan
        for _ in trainer.run():
            pass
        rows = trainer.finish()["seeds"]
    assert [row["failed"] for row in rows] == [False, True]
    assert rows[1]["test"] is None
    assert RunFolder(tmp_path / "run").read_metrics()[-1]["loss"][1] is None
