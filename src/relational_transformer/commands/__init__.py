"""The commands of `rt`, one file each.

The file of the command ``data`` is ``data.py``; it holds a frozen dataclass ``DataArguments``, whose fields are the
command line, and ``run(arguments) -> None``. A second file of the same command is called ``data_something.py``.
A command may have variants with a command line of their own: ``rt train lobster`` is ``train_lobster.py``, with
``TrainLobsterArguments`` and ``run``. `COMMANDS` says in one line what each is for, so that `rt --help` imports none of
them.
"""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Command:
    """What `rt --help` says of a command: a summary, and an example to copy; and its variants by their names."""

    summary: str
    example: str
    variants: Mapping[str, "Command"] = field(default_factory=dict)


COMMANDS = {
    "data": Command("make the CLRS-30 data, check it, look at it", "rt data bfs --show"),
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
        "score a trained run again",
        "rt evaluate runs/bfs-rt-paper --nodes 64",
        variants={
            "sokoban": Command("let trained agents play other levels", "rt evaluate sokoban runs/sokoban-rt-batched"),
        },
    ),
    "reproduce": Command("make a table of the paper again", "rt reproduce edge_updates --plan"),
    "tune": Command("search hyperparameters by Distributed Grid Descent", "rt tune rt --trials 100"),
    "play": Command("watch an agent play, or play yourself", "rt play sokoban runs/sokoban-rt-batched"),
    "report": Command("tables and figures of what was measured", "rt report results --out report"),
}


def available() -> dict[str, Command]:
    """The commands of this version: those of `COMMANDS` whose file is there, with the variants whose file is there."""
    return {
        name: replace(command, variants={key: one for key, one in command.variants.items() if _has(f"{name}_{key}")})
        for name, command in COMMANDS.items()
        if _has(name)
    }


def _has(file: str) -> bool:
    return importlib.util.find_spec(f"{__name__}.{file}") is not None
