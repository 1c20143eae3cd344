"""The commands of `rt`, one file each.

The file of the command ``data`` is ``data.py``; it holds a frozen dataclass ``DataArguments``, whose fields are the
command line, and ``run(arguments) -> None``. A second file of the same command is called ``data_something.py``;
what it shows in a terminal is in ``terminal/``.
A command may have variants with a command line of their own: ``rt train lobster`` is ``train_lobster.py``, with
``TrainLobsterArguments`` and ``run``. `COMMANDS` says in one line what each is for, so that `rt --help` imports none of
them.
"""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Command:
    """What `rt --help` prints of a command: a summary and an example. And its variants, by name."""

    summary: str
    example: str
    variants: Mapping[str, "Command"] = field(default_factory=dict)


COMMANDS = {
    "data": Command("make and check the CLRS-30 data, or show an example", "rt data bfs --show"),
    "train": Command(
        "train a fleet of seeds on a task",
        "rt train bfs --seeds 3",
        variants={
            "lobster": Command("shortest paths in lobster graphs", "rt train lobster --model rt --seeds 20"),
            "qm9": Command("a property of the molecules of QM9", "rt train qm9 --target gap --seeds 2"),
            "sokoban": Command("an agent that learns to play Sokoban", "rt train sokoban --model rt"),
        },
    ),
    "evaluate": Command(
        "test a trained run again, on graphs of any size",
        "rt evaluate runs/bfs-rt-paper --nodes 64",
        variants={
            "sokoban": Command("test trained agents on other levels", "rt evaluate sokoban runs/sokoban-rt-batched"),
        },
    ),
    "reproduce": Command("train the runs of a table of the paper", "rt reproduce edge_updates --plan"),
    "tune": Command("search hyperparameters by Distributed Grid Descent", "rt tune rt --trials 100"),
    "look": Command("a page that steps through an algorithm, and what a run makes of it", "rt look runs/bfs-rt-paper"),
    "play": Command("watch an agent play, or play yourself", "rt play sokoban runs/sokoban-rt-batched"),
    "report": Command("tables and figures of all results", "rt report results --out report"),
}


def available() -> dict[str, Command]:
    """The commands and variants of `COMMANDS` whose files exist."""
    return {
        name: replace(command, variants={key: one for key, one in command.variants.items() if _has(f"{name}_{key}")})
        for name, command in COMMANDS.items()
        if _has(name)
    }


def _has(file: str) -> bool:
    return importlib.util.find_spec(f"{__name__}.{file}") is not None
