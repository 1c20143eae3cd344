"""Traps for processes that a test starts: before a certain operation on a file they are killed, get a signal, or wait.

So a test decides where a process is, however fast or slow the machine, and needs no clock for it.
"""

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

HOOK = Path(__file__).parent / "hook"


@dataclass(frozen=True)
class Trap:
    """A trap that was laid. The first process that comes to its place springs it, and no other does."""

    path: Path

    @property
    def is_sprung(self) -> bool:
        return self._sprung.exists()

    def release(self) -> None:
        """Let the process go on that waits in it."""
        self._sprung.unlink()

    @property
    def _sprung(self) -> Path:
        return self.path.with_name(f"{self.path.name}.sprung")


@dataclass(frozen=True)
class Traps:
    """A folder for traps. Processes with its `environment` are watched."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join(filter(None, (str(HOOK), os.environ.get("PYTHONPATH"))))
        return {"PYTHONPATH": path, "RT_TRAPS": str(self.folder)}

    def lay(
        self, target: Path, number: int = 1, sent: signal.Signals | None = None, *, only_replacements: bool = True
    ) -> Trap:
        """Send the process a signal before it replaces `target` for the `number`-th time, counted from its start.

        Without a signal it waits for one, or for `release`. All operations on the file, and on those that are to
        replace it, are counted where it is not `only_replacements`.
        """
        trap = Trap(self.folder / f"{uuid4().hex}.trap")  # a name that no process has seen
        content = {"target": str(target.absolute()), "number": number, "signal": sent}
        unfinished = trap.path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps({**content, "only_replacements": only_replacements}))
        unfinished.rename(trap.path)  # who is watched sees it whole
        return trap
