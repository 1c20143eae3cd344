"""A run: its configuration, and its folder, from which every process can read its progress."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relational_transformer.runs.config import RunConfig
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.task import Task
from relational_transformer.tasks import find_task


@dataclass(frozen=True)
class Run:
    """One fleet of seeds in one folder. It is sent between machines as JSON.

    >>> from relational_transformer.lobster import SETTINGS, LobsterConfig, LobsterProtocol
    >>> run = Run("lobster", LobsterConfig("gcn", SETTINGS["gcn"], LobsterProtocol(), seeds=(0, 1)), Path("runs/gcn"))
    >>> run.name, Run.from_dict(run.as_dict()) == run
    ('gcn on lobster, seeds 0 to 1', True)
    """

    kind: str
    config: RunConfig
    folder: Path
    data: str | None = field(default=None, compare=False)
    """The folder of its data, if they are not generated. `config` identifies the data, but not their folder."""

    @property
    def task(self) -> Task[Any]:
        """The task of the run."""
        return find_task(self.kind)(self.config, self.data)

    @property
    def name(self) -> str:
        """A name for output."""
        return f"{self.config.model} on {self.config.task}, {name_seeds(self.config.seeds)}"

    @property
    def is_done(self) -> bool:
        """Whether the run has a result."""
        return RunFolder(self.folder).result.is_file()

    @property
    def is_begun(self) -> bool:
        """Whether there is a checkpoint to resume from."""
        folder = RunFolder(self.folder)
        return folder.checkpoint.is_file() or folder.previous_checkpoint.is_file()

    @property
    def share_done(self) -> float:
        """The share of the run that is done, from 0 to 1, at its last checkpoint."""
        if self.is_done:
            return 1.0
        try:
            last = RunFolder(self.folder).read_last_metrics()
        except (OSError, ValueError):  # damaged: the next checkpoint writes them again
            return 0.0
        length = self.task.num_examples
        return min(max(0, last["examples"]), length) / length if last else 0.0

    @property
    def flop(self) -> float:
        """Floating-point operations of the whole run."""
        return self.task.flop()

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "config": self.config.as_dict(), "folder": str(self.folder), "data": self.data}

    @staticmethod
    def from_dict(content: dict[str, Any]) -> "Run":
        """The run of a dictionary that `as_dict` made, also after a round trip through JSON."""
        config = find_task(content["kind"]).config_type.from_dict(content["config"])
        return Run(content["kind"], config, Path(content["folder"]), content.get("data"))


def name_seeds(seeds: tuple[int, ...]) -> str:
    """Consecutive seeds in words.

    >>> name_seeds((4,)), name_seeds((0, 1, 2))
    ('seed 4', 'seeds 0 to 2')
    """
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
