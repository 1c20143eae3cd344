"""Runs that are compiled ahead by other processes."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from relational_transformer.sweeps import EXPERIMENTS, Run, Selection, cells_of, plan, sweep
from relational_transformer.sweeps.cells import Cell
from relational_transformer.sweeps.engines import EngineOptions, LocalEngine, options
from relational_transformer.sweeps.engines.preparing import Preparation, prepare
from tests.sweeps.small import scores_alone, scores_of, small_cell, small_runs

CPU = torch.device("cpu")
WAITS = ("-c", "import sys; sys.stdin.read()")
"""A process that goes on for as long as it may."""
PREPARES_FOR_EVER = """
import time
from relational_transformer.sweeps.engines import preparing
preparing.prepare = lambda run, device, folder: time.sleep(3600)
preparing.main()
"""
TASKS = ("bfs", "binary_search", "insertion_sort")


def compiled_runs(root: Path, *tasks: str) -> list[Run]:
    cells = [small_cell(task, seeds=(0,), parts=2) for task in tasks]
    return small_runs(root, *(Cell(cell.kind, replace(cell.config, compile="on")) for cell in cells))


def running(preparation: Preparation) -> list[Path]:
    return [run.folder for run, _ in preparation._running]


def end(preparation: Preparation, run: Run, *, killed: bool = False) -> None:
    """Let the first process that prepares a run end."""
    process = next(process for prepared, process in preparation._running if prepared == run)
    assert process.stdin is not None
    if killed:
        process.kill()
    else:
        process.stdin.close()
    process.wait()


def test_runs_are_prepared_in_their_order_so_many_at_a_time_and_are_ready_when_their_process_has_ended(tmp_path):
    first, second, third = runs = compiled_runs(tmp_path, *TASKS)
    with Preparation(runs, CPU, 2, WAITS) as preparation:
        assert running(preparation) == [first.folder, second.folder]
        assert not any(preparation.is_ready(run.folder) for run in runs)
        end(preparation, second)
        assert [preparation.is_ready(run.folder) for run in runs] == [False, True, False]
        assert running(preparation) == [first.folder, third.folder]


def test_the_first_run_without_a_result_may_begin_at_once_and_is_not_prepared(tmp_path):
    done, first, second = runs = compiled_runs(tmp_path, *TASKS)
    done.folder.mkdir(parents=True)
    (done.folder / "result.json").write_text("{}")
    with Preparation(runs, CPU, 2, WAITS, begins=True) as preparation:
        assert running(preparation) == [second.folder]
        assert [preparation.is_ready(run.folder) for run in (done, first, second)] == [True, True, False]


def test_a_process_that_fails_is_told_and_costs_its_run_nothing(tmp_path, capsys):
    (run,) = compiled_runs(tmp_path, "bfs")
    with Preparation([run], CPU, 1, WAITS) as preparation:
        end(preparation, run, killed=True)
        assert preparation.is_ready(run.folder)
    assert capsys.readouterr().err == "rt on bfs, seed 0 was not compiled ahead (status -9)\n"


def test_what_compiles_nothing_or_is_done_or_finds_no_process_is_ready_at_once(tmp_path):
    plain = small_runs(tmp_path, small_cell(seeds=(0,), parts=2))
    compiled, done = compiled_runs(tmp_path, *TASKS[1:])
    done.folder.mkdir(parents=True)
    (done.folder / "result.json").write_text("{}")
    with Preparation([*plain, done], CPU, 2, WAITS) as preparation:
        assert not running(preparation)
        assert all(preparation.is_ready(run.folder) for run in (*plain, done))
    with Preparation([compiled], CPU, 0, WAITS) as preparation:
        assert preparation.is_ready(compiled.folder)


@pytest.mark.parametrize(("compile", "processes"), [("on", 1), ("off", 0), ("auto", 0)])
def test_by_the_modern_protocol_a_sweep_compiles_only_if_it_is_told_to(tmp_path, compile: Any, processes: int):
    selection = Selection(tasks=("bfs", "dfs"), models=("rt",), compile=compile)
    runs = plan(tmp_path, cells_of(EXPERIMENTS["modern"], selection), seeds_together=20)
    with Preparation(runs, torch.device("cuda"), 3, WAITS, begins=True) as preparation:
        assert len(running(preparation)) == processes
        assert [preparation.is_ready(run.folder) for run in runs] == [True, compile != "on"]


def test_no_process_and_no_folder_outlives_the_preparation(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runs = compiled_runs(tmp_path / "runs", *TASKS)
    with Preparation(runs, CPU, 3, WAITS) as preparation:
        processes = [process for _, process in preparation._running]
        (place,) = tmp_path.iterdir()
        assert len(list(place.iterdir())) == 3
    assert all(process.poll() is not None for process in processes)
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_prepares_ends_when_whoever_gave_the_order_is_gone(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", PREPARES_FOR_EVER], stdin=subprocess.PIPE, text=True)
    (run,) = compiled_runs(tmp_path, "bfs")
    assert process.stdin is not None
    order = {"run": run.as_dict(), "device": "cpu", "folder": str(tmp_path)}
    process.stdin.write(json.dumps(order) + "\n")
    process.stdin.close()
    assert process.wait(timeout=600) == 1


def test_runs_that_were_compiled_ahead_end_as_they_do_alone(tmp_path):
    """With what a process of its own keeps of the compiler, which here runs the graphs as they are."""
    cells = [small_cell(task, seeds=(0,), parts=2) for task in TASKS[:2]]
    outcome = sweep(small_runs(tmp_path, *cells), LocalEngine(["cpu"], at_once=2, prepare=1), tick_seconds=0.01)
    assert len(outcome.done) == 2
    assert scores_of(list(outcome.done)) == scores_alone(tmp_path / "alone", *cells)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch's compiler looks at it
def test_to_prepare_a_run_leaves_nothing_in_its_folder(tmp_path, traced):
    (run,) = compiled_runs(tmp_path, "bfs")
    prepare(run, CPU, tmp_path / "elsewhere")
    assert traced
    assert not run.folder.exists()


@pytest.mark.parametrize(
    ("cores", "workers", "expected"),
    [(16, ["cuda:0"], 14), (16, ["cuda:0", "cuda:1"], 6), (2, ["cuda:0"], 1), (16, ["cpu"], 0)],
)
def test_processes_that_prepare_leave_two_cores_to_each_that_trains(monkeypatch, cores, workers, expected):
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert options.processes_that_prepare(workers) == expected


def test_their_number_is_an_option_of_this_machine():
    assert EngineOptions().prepare is None
    with pytest.raises(ValueError, match="--prepare has no effect with --engine ray"):
        options.check_options(EngineOptions("ray", prepare=2))
