"""Runs in processes of their own, some of them killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from relational_transformer.sweeps import execute, sweep
from relational_transformer.sweeps.engines import EngineOptions, LocalEngine, open_engine
from relational_transformer.sweeps.execution import wait_until_free
from tests.sweeps.small import impossible_cell, rows_of, scores_of, small_cell, small_runs

PARTS = 60
"""Of a run that is to be killed: so many that somebody who waits for the first one comes before the last one."""

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


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch):
    """The number of threads decides in which order numbers are added up."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def alone(root: Path, *cells):
    """The scores of the same runs, each trained here without any engine."""
    runs = small_runs(root, *cells)
    for run in runs:
        execute(run, torch.device("cpu"))
    return scores_of(runs)


def test_one_that_fails_is_given_up_and_one_that_is_killed_goes_on(tmp_path: Path):
    """Side by side: a run that nobody can train, and one whose process is killed after its first checkpoint."""
    impossible, killed = small_runs(tmp_path, impossible_cell(), CELL)
    engine = LocalEngine(["cpu", "cpu"], checkpoint_seconds=0.0)
    events, rows, victims = [], [], []

    def kill_once() -> None:
        rows.append(rows_of(killed))
        if rows[-1] and not victims:
            victims.extend(working.process.pid for working in engine._working if working.run == killed)
            os.kill(victims[0], signal.SIGKILL)

    outcome = sweep(
        [impossible, killed],
        engine,
        report=lambda event: events.append((event.run, event.what, event.detail)),
        tick=kill_once,
        tick_seconds=0.01,
    )
    assert outcome.done == (killed,)
    assert [what for run, what, _ in events if run == killed] == ["failed", "done"]
    assert "killed by signal 9" in next(detail for run, _, detail in events if run == killed)
    assert rows == sorted(rows), "it began anew instead of going on from its checkpoint"
    assert scores_of([killed]) == alone(tmp_path / "alone", CELL)
    (errors,) = outcome.given_up.values()
    assert len(errors) == 3
    assert all("ValueError: num_heads must divide hidden_size=8, got num_heads=3" in error for error in errors)


@pytest.mark.slow
def test_a_sweep_that_was_stopped_and_killed_goes_on_and_ends_with_the_same_numbers(tmp_path: Path):
    (run,) = small_runs(tmp_path, CELL)

    def stop() -> None:
        if rows_of(run):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep([run], LocalEngine(["cpu"], checkpoint_seconds=0.0), tick=stop, tick_seconds=0.01)
    stopped_at = rows_of(run)

    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(tmp_path)])
    while rows_of(run) == stopped_at and driver.poll() is None:
        time.sleep(0.01)
    driver.kill()  # its worker has nobody left to work for
    driver.wait()
    wait_until_free(run.folder, patience=60.0)
    killed_at = rows_of(run)

    assert 0 < stopped_at < killed_at < PARTS
    assert (run.folder / "worker.log").read_text().count("stopped by SIGTERM") == 2
    sweep([run], LocalEngine(["cpu"]))
    assert scores_of([run]) == alone(tmp_path / "alone", CELL)


def test_options_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="processes must be at least 1, got 0"):
        open_engine(EngineOptions(processes=0))
    with pytest.raises(ValueError, match="device 'cuda:77' cannot be used here"):
        open_engine(EngineOptions(device="cuda:77"))


def test_every_device_takes_as_many_runs_as_asked_for():
    assert open_engine(EngineOptions(device="cpu", processes=3)).slots == 3
