"""Scores by the modern protocol, for which the paper has no table."""

from relational_transformer.clrs.classes import ALGORITHMS
from relational_transformer.clrs.classes import TITLES as TASK_TITLES

from .results.archive import Archive
from .results.cell import Cell, average_of, count_present
from .results.variants import title_of
from .table import Table


def modern(archive: Archive) -> Table:
    """All models on all tasks with results by the modern protocol, and their averages over all thirty tasks."""
    measured = Archive(archive.all, "modern")
    models = sorted({variant for task in ALGORITHMS for variant in measured.variants(task)}) or ["rt"]
    tasks = [task for task in ALGORITHMS if measured.variants(task)] or list(ALGORITHMS)
    cells = [
        Cell(TASK_TITLES[task], title_of(model), measured.find(task, model), None) for task in tasks for model in models
    ]
    for model in models:
        parts = [measured.find(task, model) for task in ALGORITHMS]
        cells.append(Cell("Average", title_of(model), average_of(parts), None, count_present(parts, "tasks")))
    return Table(
        name="modern",
        title="Mean test scores by the modern protocol",
        source="",
        cells=tuple(cells),
        kind="shown",
        remarks=(
            "By the modern protocol (rt train --protocol modern), of which the paper has no numbers. ± is the standard "
            "deviation over seeds.",
        ),
    )
