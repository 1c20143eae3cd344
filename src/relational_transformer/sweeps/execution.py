"""Trains runs in this process."""

import fcntl
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from relational_transformer.reading import open_regular
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.session import train_together

from .run import Run

PATIENCE_SECONDS = 120.0
"""Seconds to wait for the lock of a run folder: a network file system may take that long to release the lock of a dead
worker."""


def execute(run: Run, device: torch.device, checkpoint_seconds: float = 60.0) -> dict[str, Any]:
    """Train or resume a run and return its result. A run that has a result is not trained again.

    >>> result = execute(run, torch.device("cuda"))  # doctest: +SKIP
    """
    (result,) = execute_together([run], device, checkpoint_seconds)
    return result


def execute_together(
    runs: Sequence[Run],
    device: torch.device,
    checkpoint_seconds: float = 60.0,
    at_once: int | None = None,
    is_ready: Callable[[Path], bool] = lambda folder: True,
    begin_until: float = math.inf,
) -> list[dict[str, Any]]:
    """Train several runs in this process, `at_once` at a time: several small fleets fill a GPU better than one.

    The runs begin in the given order, none after `begin_until`. When one has ended, the next begins whose folder is
    ready. When one fails, the others go on, and the error is raised at the end.
    """
    for run in runs:
        wait_until_free(run.folder)
    pairs = [(run.task, run.folder) for run in runs]
    return train_together(
        pairs, device, at_once=at_once, checkpoint_seconds=checkpoint_seconds, is_ready=is_ready, goes_on=True,
        begin_until=begin_until,
    )  # fmt: skip


def wait_until_free(folder: Path, patience: float = PATIENCE_SECONDS) -> None:
    """Wait until the lock of a run folder is free, for at most `patience` seconds."""
    lock = RunFolder(folder).lock
    deadline = time.monotonic() + patience
    while lock.exists():
        with open(open_regular(lock, os.O_RDWR | os.O_NOFOLLOW), "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return  # opening the folder will raise the error
        time.sleep(0.2)
