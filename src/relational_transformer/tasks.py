"""The registry of tasks. A task is imported when a run of it is first read or trained."""

import importlib
from typing import Any

from relational_transformer.clrs.classes import ALGORITHMS
from relational_transformer.runs.task import Task

TASKS = {
    "clrs": "relational_transformer.training.task.CLRSTask",
    "lobster": "relational_transformer.lobster.task.LobsterTask",
    "sokoban": "relational_transformer.sokoban.task.SokobanTask",
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
    """The kind of the runs on a task. All thirty algorithms are of one kind.

    >>> kind_of("bfs"), kind_of("sokoban")
    ('clrs', 'sokoban')
    """
    return "clrs" if task in ALGORITHMS else task
