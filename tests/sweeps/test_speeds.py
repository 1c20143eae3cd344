"""How long runs will take."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from relational_transformer.lobster import LobsterConfig
from relational_transformer.sweeps import Run, plan
from relational_transformer.sweeps.cells import Cell
from relational_transformer.sweeps.speeds import Speeds
from tests.lobster.small import PROTOCOL, SMALL
from tests.sweeps.small import small_cell

ROW = '"loss": [0.5], "validation": [0.5]'
EMPTY = {"config": {}, "seeds": [], "hardware": "none"}


def finish(run: Run, seconds: float) -> None:
    run.folder.mkdir(parents=True)
    (run.folder / "config.json").write_text(json.dumps(run.config.as_dict()))
    result = {**EMPTY, "seconds": seconds - 1.0, "seconds_of_test": 1.0}
    (run.folder / "result.json").write_text(json.dumps(result))


def test_without_a_finished_run_nobody_knows_how_long(tmp_path: Path):
    (run,) = plan(tmp_path, [small_cell()], 20)
    assert Speeds([run]).seconds_left(run) is None


def test_what_is_left_takes_as_long_as_the_like_took(tmp_path: Path):
    cells = [small_cell(seeds=(0, 1)), small_cell(seeds=(2,)), small_cell(seeds=(3,))]
    done, half, new = plan(tmp_path, cells, 20)
    finish(done, seconds=100.0)
    half.folder.mkdir()
    (half.folder / "metrics.jsonl").write_text(f'{{"examples": 4, {ROW}}}\n{{"examples": 8, {ROW}}}\n')
    speeds = Speeds([done, half, new])
    assert speeds.seconds_left(done) == 0.0
    assert speeds.seconds_left(new) == pytest.approx(50.0)
    assert speeds.seconds_left(half) == pytest.approx(25.0)


def test_models_of_the_same_name_are_told_apart_by_the_kind_of_their_runs(tmp_path: Path):
    """Both experiments have a GAT; the two are different models of different speed."""
    lobster = LobsterConfig("gat", SMALL["gat"], PROTOCOL, seeds=(0, 1))
    clrs = replace(small_cell().config, model="gat")
    done, new, other, last = plan(tmp_path, [Cell("lobster", lobster), Cell("clrs", clrs)], seeds_together=1)
    finish(done, seconds=90.0)
    finish(other, seconds=10.0)
    speeds = Speeds([done, new, other, last])
    assert speeds.seconds_left(new) == pytest.approx(90.0)
    assert speeds.seconds_left(last) == pytest.approx(10.0)


def test_a_result_that_does_not_tell_its_time_is_named(tmp_path: Path):
    (run,) = plan(tmp_path, [small_cell()], 20)
    run.folder.mkdir(parents=True)
    (run.folder / "result.json").write_text(json.dumps(EMPTY))
    with pytest.raises(ValueError, match=r"result\.json does not say how long the run took"):
        Speeds([run])


def test_a_model_is_judged_by_its_own_speed_if_it_has_one(tmp_path: Path):
    kind, config, _ = small_cell()
    cells = [(kind, replace(config, model=name, seeds=(seed,))) for name in ("slow", "fast") for seed in (0, 1)]
    runs = plan(tmp_path, [small_cell()._replace(config=config) for _, config in cells], seeds_together=1)
    slow, slow_next, fast, fast_next = runs
    finish(slow, seconds=90.0)
    finish(fast, seconds=10.0)
    speeds = Speeds(runs)
    assert speeds.seconds_left(slow_next) == pytest.approx(90.0)
    assert speeds.seconds_left(fast_next) == pytest.approx(10.0)
