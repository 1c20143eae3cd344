"""Runs in processes of their own, some of them killed."""

import math
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from relational_transformer.runs import RunFolder
from relational_transformer.sweeps import Run, sweep
from relational_transformer.sweeps.engines import EngineOptions, LocalEngine, open_engine
from relational_transformer.sweeps.engines.local import Worker
from relational_transformer.sweeps.execution import execute_together, wait_until_free
from tests.lobster.small import small_config as small_lobster
from tests.sweeps.small import impossible_cell, rows_of, scores_alone, scores_of, small_cell, small_runs
from tests.traps.trap import Traps

PARTS = 10

DRIVER = f"""
import sys
from pathlib import Path
from relational_transformer.sweeps import sweep
from relational_transformer.sweeps.engines import LocalEngine
from tests.sweeps.small import small_cell, small_runs
runs = small_runs(Path(sys.argv[1]), small_cell(seeds=(0,), parts={PARTS}))
sweep(runs, LocalEngine(["cpu"], checkpoint_seconds=0.0))
"""

CELL = small_cell(seeds=(0,), parts=PARTS)
TASKS = ("bfs", "binary_search", "insertion_sort", "heapsort")


pytestmark = pytest.mark.usefixtures("one_thread")


def test_one_that_fails_is_given_up_and_one_that_is_killed_goes_on(traps: Traps, tmp_path: Path):
    """A run that nobody can train, and one whose process is killed after its third checkpoint.

    The two begin in one process, which the first of them brings down; from then on that one is alone.
    """
    impossible, killed = small_runs(tmp_path, impossible_cell(), CELL)
    engine = LocalEngine(["cpu"], at_once=2, checkpoint_seconds=0.0)
    traps.lay(RunFolder(killed.folder).metrics, 3, signal.SIGKILL)
    events, rows = [], []
    outcome = sweep(
        [impossible, killed],
        engine,
        report=lambda event: events.append((event.run, event.what, event.detail)),
        tick=lambda: rows.append(rows_of(killed)),
        tick_seconds=0.01,
    )
    assert outcome.done == (killed,)
    happened = [(what, detail) for run, what, detail in events if run == killed]
    assert [what for what, _ in happened] == ["failed", "done"]
    assert "killed by signal 9" in happened[0][1]
    happened = [(what, detail) for run, what, detail in events if run == impossible]
    assert [what for what, _ in happened] == ["lost", "failed", "failed", "given up"]
    assert happened[0][1].startswith("it failed beside others, and is tried alone: ValueError: num_heads must divide")
    assert rows == sorted(rows), "it began anew instead of going on from its checkpoint"
    assert scores_of([killed]) == scores_alone(tmp_path / "alone", CELL)
    (errors,) = outcome.given_up.values()
    assert len(errors) == 3
    assert all("ValueError: num_heads must divide hidden_size=8, got num_heads=3" in error for error in errors)


def test_a_process_works_through_its_queue_and_only_those_under_way_are_suspected_when_it_is_killed(
    traps: Traps, tmp_path: Path
):
    """Four runs, two at once: the process is killed when one is done and two are under way; the fourth never began."""
    cells = [small_cell(task, seeds=(0,), parts=parts) for task, parts in zip(TASKS, (2, 8, 8, 2), strict=True)]
    runs = small_runs(tmp_path, *cells)
    engine = LocalEngine(["cpu"], at_once=2, checkpoint_seconds=0.0)
    traps.lay(RunFolder(runs[2].folder).metrics, 2, signal.SIGKILL)
    events = []
    outcome = sweep(runs, engine, report=lambda event: events.append((event.run.config.task, event.what)))
    assert outcome.done == tuple(runs)
    first, second, third, fourth = TASKS
    assert events[:3] == [(first, "done"), (second, "lost"), (third, "lost")]
    assert sorted(events[3:]) == sorted([(second, "done"), (third, "done"), (fourth, "done")])
    assert scores_of(runs) == scores_alone(tmp_path / "alone", *cells)


def test_processes_on_several_devices_share_out_the_queue(tmp_path: Path, monkeypatch):
    runs = small_runs(tmp_path, *(small_cell(task, seeds=(0,)) for task in TASKS))
    engine, started = LocalEngine(["cpu", "cpu"], at_once=2), []

    class Idle:
        """A process that never ends."""

        def poll(self) -> None:
            return None

    def start(runs: list, device: str) -> Worker:
        started.append([run.config.task for run in runs])
        return Worker(runs, device, Idle(), tmp_path / "log", is_shared=True)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(engine, "_start", start)
    for run in runs:
        engine.submit(run)
    assert engine.wait(0.0) == []
    assert started == [[TASKS[0], TASKS[2]], [TASKS[1], TASKS[3]]]


@pytest.mark.parametrize("only_small", [False, True])
def test_runs_that_may_take_much_memory_share_a_process_where_that_is_asked_for(tmp_path: Path, only_small: bool):
    configs = [replace(small_lobster("gcn"), seeds=(seed,)) for seed in (0, 1)]
    lobsters = [Run("lobster", config, tmp_path / str(config.seeds)) for config in configs]
    engine = LocalEngine(["cpu"], at_once=2, only_small=only_small)
    for run in lobsters:
        engine.submit(run)
    assert engine._next_runs() == (lobsters[:1] if only_small else lobsters)


@pytest.mark.slow
def test_a_sweep_that_was_stopped_and_killed_goes_on_and_ends_with_the_same_numbers(traps: Traps, tmp_path: Path):
    """Each time the worker is met in the middle of a save."""
    (run,) = small_runs(tmp_path, CELL)
    trap = traps.lay(RunFolder(run.folder).metrics, 2)

    def stop() -> None:
        if trap.is_sprung:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep([run], LocalEngine(["cpu"], checkpoint_seconds=0.0), tick=stop, tick_seconds=0.01)
    stopped_at = rows_of(run)

    trap = traps.lay(RunFolder(run.folder).metrics, 2)
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(tmp_path)])
    while not trap.is_sprung and driver.poll() is None:
        time.sleep(0.01)
    driver.kill()  # its worker has nobody left to work for
    driver.wait()
    wait_until_free(run.folder, patience=600.0)
    killed_at = rows_of(run)

    assert 0 < stopped_at < killed_at < PARTS
    while (run.folder / "worker.log").read_text().count("stopped by SIGTERM") < 2:
        time.sleep(0.01)  # its last words come after it has let go of the folder
    sweep([run], LocalEngine(["cpu"]))
    assert scores_of([run]) == scores_alone(tmp_path / "alone", CELL)


def test_runs_that_were_not_begun_in_time_are_left_to_the_same_command(tmp_path: Path):
    cells = [small_cell(task, seeds=(0,), parts=2) for task in TASKS[:2]]
    done, late = runs = small_runs(tmp_path, *cells)
    sweep([done], LocalEngine(["cpu"]))
    events: list[tuple[Run, str]] = []
    outcome = sweep(
        runs, LocalEngine(["cpu"], begin_until=0.0), report=lambda event: events.append((event.run, event.what))
    )
    assert (outcome.done, outcome.not_begun, outcome.is_complete) == ((done,), (late,), False)
    assert events == [(late, "not begun")]
    assert sweep(runs, LocalEngine(["cpu"])).is_complete
    assert scores_of(runs) == scores_alone(tmp_path / "alone", *cells)


def test_a_process_leaves_the_runs_that_it_was_not_to_begin(tmp_path: Path):
    runs = small_runs(tmp_path, *(small_cell(task, seeds=(0,)) for task in TASKS[:2]))
    assert execute_together(runs, torch.device("cpu"), begin_until=0.0) == []
    ended = SimpleNamespace(returncode=0, poll=lambda: 0, stdin=SimpleNamespace(close=lambda: None))
    worker = Worker(runs, "cpu", ended, tmp_path / "log", is_shared=True)  # pyright: ignore[reportArgumentType]
    for until, expected in ((0.0, [(None, True)] * 2), (math.inf, [("it left no result", False)] * 2)):
        engine = LocalEngine(["cpu"], at_once=2, begin_until=until)
        engine.workers.append(worker)
        found = [((one.error or "")[-17:] or None, one.not_begun) for one in engine._look_at(worker)]
        assert found == expected


def test_options_that_cannot_be_are_refused():
    for options, name in ((EngineOptions(processes=0), "processes"), (EngineOptions(at_once=0), "at-once")):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            open_engine(options)
    with pytest.raises(ValueError, match="cpus-per-run must be at least 1, got 0"):
        open_engine(EngineOptions("ray", cpus_per_run=0))
    for seconds in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"checkpoint-seconds must be at (least 0|most 1e\+09), got"):
            open_engine(EngineOptions(checkpoint_seconds=seconds))
    with pytest.raises(ValueError, match="device 'cuda:77' cannot be used here"):
        open_engine(EngineOptions(device="cuda:77"))


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        (EngineOptions("ray", at_once=2), "--at-once has no effect with --engine ray"),
        (EngineOptions("ray", begin_within=2.0), "--begin-within has no effect with --engine ray"),
        (EngineOptions("ray", processes=2), "--processes has no effect with --engine ray"),
        (EngineOptions(address="10.0.0.1:6379"), "--address has no effect with --engine local"),
        (EngineOptions(cpus_per_run=4), "--cpus-per-run has no effect with --engine local"),
        (EngineOptions(gpus_per_run=0.5), "--gpus-per-run has no effect with --engine local"),
    ],
)
def test_options_that_would_be_ignored_are_refused(options: EngineOptions, flag: str):
    with pytest.raises(ValueError, match=flag):
        open_engine(options)


def test_every_device_takes_as_many_runs_as_asked_for():
    assert open_engine(EngineOptions(device="cpu", processes=3)).slots == 3
    assert open_engine(EngineOptions(device="cpu", processes=3, at_once=2)).slots == 6


@pytest.mark.parametrize(("gibibytes", "processes", "at_once"), [(140, 1, 8), (140, 2, 4), (44, 1, 4), (6, 1, 1)])
def test_a_gpu_takes_eight_fleets_at_once_if_it_has_the_memory(
    monkeypatch, gibibytes: int, processes: int, at_once: int
):
    properties = SimpleNamespace(total_memory=gibibytes * 2**30)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    engine = open_engine(EngineOptions(processes=processes))
    assert isinstance(engine, LocalEngine)
    assert (engine.at_once, engine.slots) == (at_once, at_once * processes)
