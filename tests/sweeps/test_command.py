"""`rt reproduce`, mostly with an engine that makes results up."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from relational_transformer.commands.reproduce import ReproduceArguments, run
from relational_transformer.commands.terminal import sweeps as terminal
from relational_transformer.runs import RunFolder
from relational_transformer.sweeps import EXPERIMENTS, Selection, cells_of, plan
from relational_transformer.sweeps.engines import Ended, EngineOptions, LocalEngine
from tests.traps.trap import Traps


class Inventing:
    """An engine that ends every run at once, with scores that nobody has trained for; it fails on some models."""

    def __init__(self, slots: int = 1, fails_on: str = "nothing") -> None:
        self.slots, self.fails_on = slots, fails_on
        self.runs, self.submitted, self.ended, self.closed = [], [], [], False

    def submit(self, run) -> None:
        self.runs.append(run)
        self.submitted.append(run.config.model)
        self.ended.append(Ended(run, "no such luck") if run.config.model == self.fails_on else Ended(run))
        if run.config.model != self.fails_on:
            run.folder.mkdir(parents=True)
            config = run.config.as_dict()
            rows = [{"seed": seed, "test": 0.5, "failed": False} for seed in run.config.seeds]
            result = {"config": config, "seeds": rows, "seconds": 60.0, "seconds_of_test": 0.0, "hardware": "none"}
            (run.folder / "config.json").write_text(json.dumps(config))
            (run.folder / "result.json").write_text(json.dumps(result))

    def wait(self, seconds: float) -> list[Ended]:
        ended, self.ended = self.ended, []
        return ended

    def stop(self) -> None:
        raise AssertionError("nothing asked it to stop")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch):
    """Use the engine that a test makes."""

    def use(engine: Any) -> Any:
        monkeypatch.setattr(terminal, "open_engine", lambda options: engine)
        return engine

    return use


def reproduce(tmp_path: Path, experiment: str = "untuned", **options) -> None:
    run(ReproduceArguments(experiment, out=tmp_path, **{"tasks": ("core",), "seeds": 2, "examples": 40, **options}))


def test_it_trains_what_is_missing_and_prints_the_table(engine, tmp_path: Path, capsys):
    used = engine(Inventing())
    reproduce(tmp_path, models=("deep_sets",))
    assert used.submitted == ["deep_sets"] * 8
    assert used.closed
    table = capsys.readouterr().out
    assert "| Tuning | Deep Sets | 2 | 50.00" in table
    again = engine(Inventing())
    reproduce(tmp_path, models=("deep_sets",))
    assert again.submitted == []
    assert capsys.readouterr().out == table


def test_a_run_that_is_given_up_is_told_and_the_command_fails(engine, tmp_path: Path, capsys):
    used = engine(Inventing(fails_on="mpnn"))
    with pytest.raises(SystemExit, match="1"):
        reproduce(tmp_path, models=("deep_sets", "mpnn"), tasks=("bellman_ford",))
    assert sorted(used.submitted) == ["deep_sets", "mpnn", "mpnn", "mpnn"]
    printed = capsys.readouterr()
    assert "given up after 3 failures: mpnn on bellman_ford, seeds 0 to 1" in printed.err
    assert "no such luck" in printed.err
    assert "| Tuning | Deep Sets |" in printed.out


@pytest.mark.parametrize(
    ("slots", "expected"), [(1, ["untuned_deep_sets", "deep_sets"]), (2, ["deep_sets", "untuned_deep_sets"])]
)
def test_cheap_runs_are_first_alone_and_last_side_by_side(engine, tmp_path: Path, slots: int, expected: list[str]):
    used = engine(Inventing(slots))
    reproduce(tmp_path, models=("untuned_deep_sets", "deep_sets"), tasks=("bellman_ford",))
    assert used.submitted == expected


def test_runs_may_begin_in_the_given_order_of_their_tasks(engine, tmp_path: Path):
    used, tasks = engine(Inventing(slots=2)), ("minimum", "bubble_sort", "bfs")
    reproduce(tmp_path, "modern", models=("rt",), tasks=tasks, order="given")
    assert [run.config.task for run in used.runs] == list(tasks)


def test_the_scores_of_a_run_are_printed_when_it_has_ended(engine, tmp_path: Path, capsys):
    engine(Inventing())
    reproduce(tmp_path, models=("deep_sets",), tasks=("bellman_ford",))
    line = "[1/1] done: deep_sets on bellman_ford, seeds 0 to 1: test 50.00%, 50.00% in 1:00 min"
    assert line in capsys.readouterr().err.splitlines()


def test_runs_that_were_not_begun_are_told_and_the_command_fails(engine, tmp_path: Path, capsys):
    engine(LocalEngine(["cpu"], begin_until=0.0))
    with pytest.raises(SystemExit, match="1"):
        reproduce(tmp_path, models=("deep_sets",), tasks=("bellman_ford",))
    assert "[0/1] not begun: deep_sets on bellman_ford, seeds 0 to 1" in capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("options", [{"processes": 0}, {"at_once": 0}, {"engine": "ray", "at_once": 3}])
def test_a_plan_for_what_cannot_be_is_refused(tmp_path: Path, options: dict):
    with pytest.raises(ValueError, match=r"must be at least 1, got 0|--at-once has no effect with --engine ray"):
        reproduce(tmp_path, plan=True, where=EngineOptions(**options))


def test_a_plan_lists_runs_with_their_cost_and_starts_nothing(engine, tmp_path: Path, capsys):
    used = engine(Inventing())
    reproduce(tmp_path, plan=True)
    printed = capsys.readouterr().out
    assert used.submitted == []
    assert not list(tmp_path.iterdir())
    assert "96 runs: 0 done, 0 begun, 96 not yet." in printed
    assert "The time left is known when the first run has ended" in printed


def test_a_plan_knows_the_time_left_once_a_run_has_ended(engine, tmp_path: Path, capsys):
    engine(Inventing())
    options = {"models": ("deep_sets",), "tasks": ("bellman_ford",)}
    reproduce(tmp_path, **options)
    reproduce(tmp_path, plan=True, **{**options, "seeds": 4})
    printed = capsys.readouterr().out.splitlines()
    done, new, summary = (line for line in printed[-3:])
    assert "100%" in done
    assert "0:00 min" in done
    assert "2 to 3     0%" in new
    assert "1:00 min" in new
    assert "2 runs: 1 done, 0 begun, 1 not yet." in summary
    assert "About 1:00 min left in one slot" in summary


def test_parameters_are_counted_without_any_run(engine, tmp_path: Path, capsys):
    used = engine(Inventing())
    run(ReproduceArguments("parameters", out=tmp_path))
    assert used.submitted == []
    assert "| tuned | RT | - | 1,103,404 | 1,103,404 |" in capsys.readouterr().out


def test_mistakes_are_one_clear_sentence(tmp_path: Path):
    with pytest.raises(ValueError, match="there is no experiment 'mian'; the experiments are main, classes"):
        run(ReproduceArguments("mian"))
    with pytest.raises(ValueError, match="this experiment has no task 'bfs'; it has activity_selector"):
        reproduce(tmp_path, tasks=("bfs",))
    with pytest.raises(ValueError, match="device 'cuda:77' cannot be used here"):
        reproduce(tmp_path, where=EngineOptions(device="cuda:77"))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_stopped_by_a_signal_it_saves_its_runs_and_ends_with_one_line(traps: Traps, tmp_path: Path):
    """While its run is in the middle of a save."""
    selection = Selection(tasks=("bfs",), models=("untuned_deep_sets",), seeds=1, examples=324, precision="fp32")
    (planned,) = plan(tmp_path, cells_of(EXPERIMENTS["published_baselines"], selection), seeds_together=20)
    trap = traps.lay(RunFolder(planned.folder).metrics)
    command = [
        *(sys.executable, "-m", "relational_transformer.cli", "reproduce", "published_baselines", "--tasks", "bfs"),
        *("--models", "untuned_deep_sets", "--seeds", "1", "--examples", "324", "--device", "cpu"),
        *("--checkpoint-seconds", "0", "--out", str(tmp_path)),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not trap.is_sprung and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    printed, errors = process.communicate()
    assert (process.returncode, printed) == (130, "")
    assert errors.splitlines()[-1].startswith("rt: stopped, saved everything")
    assert "Traceback" not in errors
    assert list(tmp_path.rglob("checkpoint.safetensors"))
    assert not list(tmp_path.rglob("result.json"))
