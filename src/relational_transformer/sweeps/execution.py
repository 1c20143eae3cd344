"""Runs carried out in this process."""

import fcntl
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
"""How long to wait for a folder whose last worker may still be dying; network file systems take that long to notice."""


def execute(run: Run, device: torch.device, checkpoint_seconds: float = 60.0) -> dict[str, Any]:
    """Train a run here, on from its last checkpoint, and return its result. What has its result is not trained.

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
) -> list[dict[str, Any]]:
    """Train several runs in this process, `at_once` side by side: small fleets fill a GPU better together.

    They begin in this order; when one has ended, the next whose folder is ready begins.
    """
    for run in runs:
        wait_until_free(run.folder)
    pairs = [(run.task, run.folder) for run in runs]
    return train_together(pairs, device, at_once=at_once, checkpoint_seconds=checkpoint_seconds, is_ready=is_ready)


def wait_until_free(folder: Path, patience: float = PATIENCE_SECONDS) -> None:
    """Wait until nobody holds the lock of a run folder, at most for `patience` seconds."""
    lock = RunFolder(folder).lock
    deadline = time.monotonic() + patience
    while lock.exists():
        with open(open_regular(lock, os.O_RDWR | os.O_NOFOLLOW), "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return  # who opens the folder will say that it is taken
        time.sleep(0.2)
