"""Scores by the modern protocol beside published ones. The paper has none, so they are in no table of the paper."""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from statistics import fmean
from typing import Any

from relational_transformer.clrs.classes import ALGORITHMS, CLASSES
from relational_transformer.clrs.classes import TITLES as TASK_TITLES

from .results.archive import Archive
from .results.cell import Cell, average_of, count_present
from .results.estimate import Estimate
from .results.variants import title_of
from .table import Table


@cache
def published() -> Mapping[str, Any]:
    """The contents of `modern.json`.

    >>> published()["methods"]["triplet_gmpnn"]["average"]
    75.98
    """
    return json.loads(resources.files("relational_transformer.reports").joinpath("modern.json").read_text())


def modern(archive: Archive) -> Table:
    """All models on all tasks with results by the modern protocol, and their averages over all thirty tasks."""
    measured, models = _measured(archive)
    tasks = [task for task in ALGORITHMS if measured.variants(task)] or list(ALGORITHMS)
    scores, methods = published()["tasks"], published()["methods"]
    cells = [
        Cell(TASK_TITLES[task], _title(model), measured.find(task, model), _bare(scores.get(model, {}).get(task)))
        for task in tasks
        for model in dict.fromkeys((*models, *scores))
    ]
    for model in dict.fromkeys((*models, *methods)):
        parts = [measured.find(task, model) for task in ALGORITHMS]
        average = _bare(methods.get(model, {}).get("average"))
        cells.append(Cell("Average", _title(model), average_of(parts), average, count_present(parts, "tasks")))
    return _table("modern", "Mean test scores by the modern protocol", "task", models, cells)


def modern_classes(archive: Archive) -> Table:
    """The same, averaged over the tasks of each class."""
    measured, models = _measured(archive)
    cells = []
    for group, tasks in CLASSES.items():
        for model in dict.fromkeys((*models, *published()["tasks"], *published()["classes"])):
            parts = [measured.find(task, model) for task in tasks]
            row, printed = group.value.capitalize(), _bare(_of_class(model, group.value, tasks))
            cells.append(Cell(row, _title(model), average_of(parts), printed, count_present(parts, "tasks")))
    title = "Mean test scores by the modern protocol, averaged over the tasks of each class"
    return _table("modern_classes", title, "class", models, cells)


def _measured(archive: Archive) -> tuple[Archive, list[str]]:
    """What was trained by the modern protocol, and the models that were."""
    measured = Archive(archive.all, "modern")
    return measured, sorted({variant for task in ALGORITHMS for variant in measured.variants(task)}) or ["rt"]


def _of_class(model: str, group: str, tasks: tuple[str, ...]) -> float | None:
    """What is published of a class, or follows from what is published of its tasks."""
    if model in published()["classes"]:
        return published()["classes"][model][group]
    scores = published()["tasks"].get(model)
    return None if scores is None else fmean(scores[task] for task in tasks)


def _table(name: str, title: str, row_header: str, models: list[str], cells: list[Cell]) -> Table:
    methods = published()["methods"]
    return Table(
        name=name,
        title=title,
        source="",
        cells=tuple(cells),
        row_header=row_header,
        kind="shown",
        paper_header="published",
        published_columns=tuple(_title(method) for method in methods if method not in models),
        remarks=(
            "Results of the modern protocol (rt train --protocol modern), for which the paper has no numbers. ± is the "
            "standard deviation over seeds.",
            *(f"{method['title']}: {method['protocol']}." for method in methods.values()),
        ),
    )


def _title(model: str) -> str:
    methods = published()["methods"]
    return methods[model]["title"] if model in methods else title_of(model)


def _bare(mean: float | None) -> Estimate | None:
    """A number that is printed without a spread."""
    return None if mean is None else Estimate(mean, None, 0, None, None)
