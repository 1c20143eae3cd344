"""The paper's tables of CLRS-30 test scores: tasks, classes, ablations, sizes of training sets, tuning."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from relational_transformer.clrs.classes import CLASSES, CORE_TASKS
from relational_transformer.clrs.classes import TITLES as TASK_TITLES

from .paper import (
    contradictions,
    numbers,
    published,
    published_average,
    published_class,
    published_class_average,
)
from .results.archive import Archive
from .results.cell import Cell, Ours, average_of, count_present
from .results.estimate import Estimate
from .results.variants import BASELINES, MODELS, title_of
from .table import Table

COMBINED = (
    "PGN-c is the better of PGN-u and PGN-m on every task. It is selected by test scores, so its difference is shown "
    "and not tested."
)
RETUNED = "The paper tuned this model again and does not print the result; ours keeps RT's other settings."
AVERAGE = "Average"
CORE_AVERAGE = "Average of the eight core tasks"


def main(archive: Archive) -> Table:
    """All tuned models on all tasks."""
    paper = numbers()["main"]
    tasks = tuple(paper["mean"])
    return Table(
        name="main",
        title="Mean test scores of all tuned models on all tasks",
        source=paper["table"],
        cells=_by_task(archive, tasks, MODELS, paper["average"]),
        untested_columns=(title_of("pgn_combined"),),
        remarks=(COMBINED, *contradictions("main")),
    )


def deviations(archive: Archive) -> Table:
    """Standard deviations over seeds, and over all runs of all tasks."""
    paper = numbers()["main"]
    models = tuple(paper["deviation_over_all_runs"])
    cells = []
    for task, printed in paper["deviation"].items():
        for model in models:
            ours = _spread(archive.find(task, model))
            cells.append(Cell(TASK_TITLES[task], title_of(model), ours, _bare(printed[model])))
    for model in models:
        found = [archive.find(task, model) for task in paper["deviation"]]
        scores = [
            score for task in paper["deviation"] for one in archive.of(task, model)[:1] for score in one.scores.values()
        ]
        whole = average_of(found)
        spread = _spread(replace(whole, estimate=Estimate.of(scores))) if whole else None
        printed = _bare(paper["deviation_over_all_runs"][model])
        cells.append(Cell("Over all runs", title_of(model), spread, printed, count_present(found, "tasks")))
    return Table(
        name="deviations",
        title="Standard deviations over seeds of all tuned models on all tasks",
        source=paper["table"],
        cells=tuple(cells),
        decimals=1,
        kind="shown",
    )


def classes(archive: Archive) -> Table:
    """Averages over the eight classes of algorithms."""
    cells, found = [], {}
    for group, tasks in CLASSES.items():
        for model in MODELS:
            parts = [archive.find(task, model) for task in tasks]
            found[group, model] = average_of(parts)
            present = count_present(parts, "tasks")
            paper = published_class(group, model)
            cells.append(Cell(group.value.capitalize(), title_of(model), found[group, model], paper, present))
    for model in MODELS:
        parts = [found[group, model] for group in CLASSES]
        present = count_present(parts, "classes")
        cells.append(Cell(AVERAGE, title_of(model), average_of(parts), published_class_average(model), present))
    return Table(
        name="classes",
        title="Mean test scores of all tuned models on the eight classes of algorithms",
        source=numbers()["classes"]["table"],
        cells=tuple(cells),
        row_header="class",
        untested_columns=(title_of("pgn_combined"),),
        remarks=(COMBINED, *contradictions("classes")),
    )


def core_averages(archive: Archive) -> tuple[Cell, ...]:
    """Averages over the eight core tasks, of models with results on all of them."""
    printed: dict[str, float] = dict(numbers()["tuning"]["tuned"])
    for paper in numbers()["ablations"].values():
        if set(paper["mean"]) == set(CORE_TASKS):
            printed |= paper["average"]
    cells = [
        _average(archive, CORE_AVERAGE, model, CORE_TASKS, published_average(mean, CORE_TASKS, model))
        for model, mean in printed.items()
    ]
    return tuple(cell for cell in cells if cell.ours is not None)


def ablation(name: str, title: str, *remarks: str) -> Callable[[Archive], Table]:
    """A function that makes the table of one of the paper's ablations, `name` in the data file."""

    def build(archive: Archive) -> Table:
        paper = numbers()["ablations"][name]
        return Table(
            name=name,
            title=title,
            source=paper["table"],
            cells=_by_task(archive, tuple(paper["mean"]), tuple(paper["average"]), paper["average"]),
            remarks=(*remarks, *contradictions(name)),
        )

    return build


def train_size(archive: Archive) -> Table:
    """Untuned baselines trained on 1,000 and on 10,000 examples."""
    paper = numbers()["train_size"]
    cells = [
        _core_average(
            archive,
            f"{size:,} examples",
            f"untuned_{model}",
            paper[str(size)][model],
            paper["seeds"],
            size,
            title_of(model),
        )
        for size in (1_000, 10_000)
        for model in BASELINES
    ]
    return Table(
        name="train_size",
        title="Untuned baselines by the size of the training set, averages over the eight core tasks",
        source=paper["table"],
        cells=tuple(cells),
        row_header="training set",
        untested_columns=(title_of("pgn_combined"),),
        remarks=(COMBINED,),
    )


def untuned(archive: Archive) -> Table:
    """Baselines before and after tuning."""
    paper = numbers()["tuning"]
    before = [
        _core_average(
            archive, "No tuning", f"untuned_{model}", paper["untuned"][model], paper["seeds"], 10_000, title_of(model)
        )
        for model in BASELINES
    ]
    after = [
        _average(archive, "Tuning", model, CORE_TASKS, published_average(paper["tuned"][model], CORE_TASKS, model))
        for model in BASELINES
    ]
    return Table(
        name="untuned",
        title="Baselines before and after tuning, averages over the eight core tasks",
        source=paper["table"],
        cells=(*before, *after),
        row_header="settings",
        untested_columns=(title_of("pgn_combined"),),
        remarks=(COMBINED,),
    )


def published_baselines(archive: Archive) -> Table:
    """The baselines as published in CLRS-30 (3 seeds), and as trained again in the paper (20 seeds)."""
    paper = numbers()["published_baselines"]
    core, grouped = paper["core_tasks"], paper["classes"]
    cells: list[Cell] = []
    for label, printed in (("CLRS-30, 3 seeds", core["published"]), ("run again by the paper", core["reproduced"])):
        cells += [
            _core_average(
                archive, f"Core tasks: {label}", f"untuned_{model}", mean, printed["seeds"], 1_000, title_of(model)
            )
            for model, mean in printed["mean"].items()
        ]
    for label, printed, prefix, size in (
        ("CLRS-30, 3 seeds", grouped["published"], "untuned_", 1_000),
        ("improved by the paper", grouped["improved"], "", None),
    ):
        for model, mean in printed["mean"].items():
            parts = [
                average_of([archive.find(task, prefix + model, size) for task in tasks]) for tasks in CLASSES.values()
            ]
            theirs = Estimate(mean, None, printed["seeds"], None, None)
            present = count_present(parts, "classes")
            cells.append(Cell(f"Classes: {label}", title_of(model), average_of(parts), theirs, present))
    return Table(
        name="published_baselines",
        title="The published baselines of CLRS-30, and the same models improved",
        source=f"{core['table']}, {grouped['table']}",
        cells=tuple(cells),
        row_header="results",
        untested_columns=(title_of("pgn_combined"),),
        remarks=(
            "Untuned models, trained on 1,000 examples; the last row is of tuned models, trained on 10,000.",
            COMBINED,
            *contradictions("classes")[:1],
        ),
    )


def _by_task(
    archive: Archive, tasks: Sequence[str], models: Sequence[str], averages: dict[str, float]
) -> tuple[Cell, ...]:
    cells = [
        Cell(TASK_TITLES[task], title_of(model), archive.find(task, model), published(task, model))
        for task in tasks
        for model in models
    ]
    cells += [
        _average(archive, AVERAGE, model, tasks, published_average(averages[model], tasks, model)) for model in models
    ]
    return tuple(cells)


def _average(archive: Archive, row: str, model: str, tasks: Sequence[str], printed: Estimate) -> Cell:
    parts = [archive.find(task, model) for task in tasks]
    return Cell(row, title_of(model), average_of(parts), printed, count_present(parts, "tasks"))


def _core_average(archive: Archive, row: str, variant: str, mean: float, seeds: int, size: int, column: str) -> Cell:
    parts = [archive.find(task, variant, size) for task in CORE_TASKS]
    printed = Estimate(mean, None, seeds, None, None)
    return Cell(row, column, average_of(parts), printed, count_present(parts, "tasks"))


def _bare(value: float) -> Estimate:
    """A number without a spread of its own."""
    return Estimate(value, None, numbers()["main"]["seeds"], None, None)


def _spread(ours: Ours | None) -> Ours | None:
    """The deviation in place of the mean; None for a single seed."""
    if ours is None or ours.estimate is None or ours.estimate.deviation is None:
        return None
    return replace(ours, estimate=Estimate(ours.estimate.deviation, None, ours.estimate.seeds, None, None))
