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
    """What help texts say of a command: a summary and an example. And its variants, by name."""

    summary: str
    example: str
    variants: Mapping[str, "Command"] = field(default_factory=dict)
    more: tuple[str, ...] = ()
    """Other examples, which only the command's own help prints."""


COMMANDS = {
    "data": Command(
        "make and check the CLRS-30 data, or show an example",
        "rt data bfs --show",
        more=("rt data bfs dijkstra --splits val test", "rt data --protocol modern"),
    ),
    "train": Command(
        "train a fleet of seeds on an algorithm of CLRS-30",
        "rt train bfs --seeds 3",
        variants={
            "lobster": Command(
                "train on shortest paths in lobster graphs",
                "rt train lobster --model rt --seeds 20",
                more=("rt train lobster --model gat --epochs 20",),
            ),
            "qm9": Command(
                "train on a property of the molecules of QM9",
                "rt train qm9 --target gap --seeds 2",
                more=("rt train qm9 --target u0 --epochs 20 --num-layers 4",),
            ),
            "sokoban": Command(
                "train agents that play Sokoban",
                "rt train sokoban --model rt",
                more=("rt train sokoban --model transformer --levels boxoban-levels --steps 1000000",),
            ),
        },
        more=("rt train bfs --protocol quick", "rt train bfs --model pgn --learning-rate 1e-3 --out runs/my-pgn"),
    ),
    "evaluate": Command(
        "test a trained run again, on graphs of any size",
        "rt evaluate runs/bfs-rt-paper --nodes 64",
        variants={
            "sokoban": Command(
                "test trained agents on other levels",
                "rt evaluate sokoban runs/sokoban-rt-batched",
                more=("rt evaluate sokoban runs/sokoban-rt-batched --levels boxoban-levels --split valid",),
            ),
        },
        more=("rt evaluate runs/bfs-rt-paper --nodes 16 32 64 --examples 100", "rt evaluate runs/bfs-rt-paper --hints"),
    ),
    "reproduce": Command(
        "train the runs of a table of the paper",
        "rt reproduce edge_updates --plan",
        more=("rt reproduce main --tasks core --models rt mpnn --seeds 3", "rt reproduce main --engine ray"),
    ),
    "tune": Command(
        "search hyperparameters by Distributed Grid Descent",
        "rt tune rt --trials 100",
        more=("rt tune mpnn --tasks bfs dfs", "rt tune rt --show", "rt tune rt --winner"),
    ),
    "look": Command(
        "step through an algorithm and a run's predictions",
        "rt look runs/bfs-rt-paper",
        more=("rt look --task dijkstra", "rt look runs/bfs-rt-paper runs/bfs-pgn-paper --nodes 16 32"),
    ),
    "play": Command(
        "watch an agent play, or play yourself",
        "rt play sokoban runs/sokoban-rt-batched",
        more=("rt play sokoban --level 7", "rt play sokoban --moves ullddr --gif game.gif"),
    ),
    "report": Command(
        "tables and figures of all results",
        "rt report results --out report",
        more=("rt report runs --table main --format csv", "rt report results --write docs/results.md"),
    ),
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
