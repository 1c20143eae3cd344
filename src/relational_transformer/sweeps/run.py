"""A run: what is trained, and the folder it lives in."""

import fcntl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .kinds import Config, find_kind

PATIENCE_SECONDS = 120.0
"""How long to wait for a folder whose last worker may still be dying; network file systems take that long to notice."""


@dataclass(frozen=True)
class Run:
    """One fleet of seeds in one folder. It travels between machines as JSON.

    >>> from relational_transformer.lobster import SETTINGS, LobsterConfig, LobsterProtocol
    >>> run = Run("lobster", LobsterConfig("gcn", SETTINGS["gcn"], LobsterProtocol(), seeds=(0, 1)), Path("runs/gcn"))
    >>> run.name, Run.from_dict(run.as_dict()) == run
    ('gcn on lobster, seeds 0 to 1', True)
    """

    kind: str
    config: Config
    folder: Path

    @property
    def name(self) -> str:
        """For people to read."""
        return f"{self.config.model} on {self.config.task}, {name_seeds(self.config.seeds)}"

    @property
    def flop(self) -> float:
        """Floating-point operations of the whole run."""
        return find_kind(self.kind).flop(self.config)

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "config": self.config.as_dict(), "folder": str(self.folder)}

    @staticmethod
    def from_dict(content: dict[str, Any]) -> "Run":
        """A run as `as_dict` gave it, after a trip through JSON."""
        config = find_kind(content["kind"]).read_config(content["config"])
        return Run(content["kind"], config, Path(content["folder"]))


def execute(
    run: Run, device: torch.device, checkpoint_seconds: float = 60.0, patience: float = PATIENCE_SECONDS
) -> dict[str, Any]:
    """Train a run here, on from its last checkpoint, and return its result. What has its result is not trained.

    >>> result = execute(run, torch.device("cuda"))  # doctest: +SKIP
    """
    train = find_kind(run.kind).train
    wait_until_free(run.folder, patience)
    return train(run.config, str(run.folder), device, checkpoint_seconds=checkpoint_seconds)


def wait_until_free(folder: Path, patience: float) -> None:
    """Wait until nobody holds the lock of a run folder, at most for `patience` seconds."""
    lock = folder / ".lock"
    deadline = time.monotonic() + patience
    while lock.exists():
        with lock.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return  # who opens the folder will say that it is taken
        time.sleep(0.2)


def name_seeds(seeds: tuple[int, ...]) -> str:
    """Seeds in words, or in the name of a folder.

    >>> name_seeds((4,)), name_seeds((0, 1, 2))
    ('seed 4', 'seeds 0 to 2')
    """
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
