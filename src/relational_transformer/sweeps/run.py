"""A run: what is trained, and the folder it lives in, which tells how far it is, whoever works on it."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.task import Config, Task
from relational_transformer.tasks import find_task


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
    data: str | None = field(default=None, compare=False)
    """The folder of its data, where they are not generated. What they are is in `config`; where they lie is not."""

    @property
    def task(self) -> Task[Any]:
        """What trains it."""
        return find_task(self.kind)(self.config, self.data)

    @property
    def name(self) -> str:
        """For people to read."""
        return f"{self.config.model} on {self.config.task}, {name_seeds(self.config.seeds)}"

    @property
    def is_done(self) -> bool:
        """Whether it has its result."""
        return RunFolder(self.folder).result.is_file()

    @property
    def is_begun(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        folder = RunFolder(self.folder)
        return folder.checkpoint.is_file() or folder.previous_checkpoint.is_file()

    @property
    def share_done(self) -> float:
        """How much of it is behind it, from 0 to 1, at its last checkpoint."""
        if self.is_done:
            return 1.0
        try:
            last = RunFolder(self.folder).metrics.read_text().splitlines()[-1]
            return min(1.0, json.loads(last)["examples"] / self.task.num_examples)
        except (OSError, IndexError):  # nothing is saved yet
            return 0.0

    @property
    def flop(self) -> float:
        """Floating-point operations of the whole run."""
        return self.task.flop()

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "config": self.config.as_dict(), "folder": str(self.folder), "data": self.data}

    @staticmethod
    def from_dict(content: dict[str, Any]) -> "Run":
        """A run as `as_dict` gave it, after a trip through JSON."""
        config = find_task(content["kind"]).read_config(content["config"])
        return Run(content["kind"], config, Path(content["folder"]), content.get("data"))


def name_seeds(seeds: tuple[int, ...]) -> str:
    """Seeds in words, or in the name of a folder.

    >>> name_seeds((4,)), name_seeds((0, 1, 2))
    ('seed 4', 'seeds 0 to 2')
    """
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
