"""Runs trained in this process."""

import fcntl
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import torch

from relational_transformer.sweeps import execute, execution
from relational_transformer.sweeps.execution import execute_together, wait_until_free
from tests.sweeps.small import scores_of, small_cell, small_runs

CPU = torch.device("cpu")


def test_runs_side_by_side_end_as_they_do_alone(tmp_path: Path):
    cells = small_cell("bfs", seeds=(0,)), small_cell("binary_search", seeds=(1,))
    alone, together = small_runs(tmp_path / "alone", *cells), small_runs(tmp_path / "together", *cells)
    for run in alone:
        execute(run, CPU)
    execute_together(together, CPU)
    assert scores_of(together) == scores_of(alone)


def test_a_folder_is_waited_for_until_it_is_free(tmp_path: Path, monkeypatch):
    has_looked = threading.Event()
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: has_looked.set())
    monkeypatch.setattr(execution, "time", clock)
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = threading.Thread(target=wait_until_free, args=(tmp_path,))
        waiting.start()
        has_looked.wait()
        assert waiting.is_alive()
    waiting.join()


def test_nobody_waits_for_ever(tmp_path: Path):
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wait_until_free(tmp_path, patience=0.0)
