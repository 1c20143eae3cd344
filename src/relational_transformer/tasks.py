"""The registry of tasks. A task is imported when a run of it is first read or trained."""

import importlib
from typing import Any

from relational_transformer.clrs.classes import ALGORITHMS
from relational_transformer.runs.task import Task

TASKS = {
    "clrs": "relational_transformer.training.task.CLRSTask",
    "lobster": "relational_transformer.lobster.task.LobsterTask",
    "sokoban": "relational_transformer.sokoban.task.SokobanTask",
    "qm9": "relational_transformer.molecules.task.QM9Task",
}
"""The class of each kind of runs. A new experiment adds a line here (docs/add-a-task.md)."""


def find_task(kind: str) -> type[Task[Any]]:
    """The class of a kind of runs.

    >>> find_task("lobster").__name__
    'LobsterTask'
    """
    if kind not in TASKS:
        raise ValueError(f"there is no kind of runs {kind!r}; the kinds are {', '.join(TASKS)}")
    module, _, name = TASKS[kind].rpartition(".")
    return getattr(importlib.import_module(module), name)


def kind_of(task: str) -> str:
    """The kind of the runs on a task. All thirty algorithms are of one kind, and so are the properties of QM9.

    >>> kind_of("bfs"), kind_of("sokoban"), kind_of("qm9_gap")
    ('clrs', 'sokoban', 'qm9')
    """
    if task in ALGORITHMS:
        return "clrs"
    return "qm9" if task.startswith("qm9_") else task
