"""The commands of `rt`, one file each.

The file of the command ``data`` is ``data.py``; it holds a frozen dataclass ``DataArguments``, whose fields are the
command line, and ``run(arguments) -> None``. A second file of the same command is called ``data_something.py``.
`COMMANDS` says in one line what each is for, so that `rt --help` imports none of them.
"""

import importlib.util
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """What `rt --help` says of a command: a summary, and an example to copy."""

    summary: str
    example: str


COMMANDS = {
    "data": Command("make the CLRS-30 data, check it, look at it", "rt data bfs --show"),
    "train": Command("train a fleet of seeds on a task", "rt train bfs --seeds 3"),
    "evaluate": Command("score a trained run again", "rt evaluate runs/bfs-rt-paper --nodes 64"),
    "reproduce": Command("make a table of the paper again", "rt reproduce TABLE"),
    "tune": Command("search hyperparameters by Distributed Grid Descent", "rt tune rt --trials 100"),
    "report": Command("tables and figures of what was measured", "rt report"),
}


def available() -> dict[str, Command]:
    """The commands of this version: those of `COMMANDS` whose file is there."""
    return {name: command for name, command in COMMANDS.items() if importlib.util.find_spec(f"{__name__}.{name}")}
