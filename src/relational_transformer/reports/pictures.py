"""The figures of a report: the paper's figures of scores with our numbers, ablations, histograms, learning curves."""

from collections.abc import Sequence
from dataclasses import dataclass

from relational_transformer.clrs.classes import TITLES as TASK_TITLES
from relational_transformer.tasks import find_task, kind_of

from .figures.bars import Bar, Group, draw_bars, nice_top
from .figures.curves import Curve, draw_curves, read_curve
from .figures.drawing import Drawing
from .figures.histograms import draw_histograms
from .other_tables import OTHERS
from .paper import numbers
from .results.archive import Archive
from .results.estimate import Estimate
from .results.variants import MODELS, title_of, title_on
from .score_tables import AVERAGE, classes
from .table import Table

ABLATIONS = ("transformer", "single_layer", "pointers", "core_node", "edge_updates")


@dataclass(frozen=True)
class Picture:
    """A drawing with the name of its file and its caption, which may be empty."""

    name: str
    caption: str
    drawing: Drawing


def bar_chart(archive: Archive) -> Picture:
    """Figure 1: the average over the eight classes of every model, with the published results of CLRS-30."""
    found = {cell.column: cell for cell in classes(archive).cells if cell.row == AVERAGE}
    groups = [
        Group(title, (Bar(title, cell.estimate, cell.paper, strong=title == "RT"),)) for title, cell in found.items()
    ]
    prior = numbers()["published_baselines"]["classes"]["published"]
    groups += [
        Group(f"{title_of(model)}-pr", (Bar("", None, Estimate(mean, None, prior["seeds"], None, None), absent="-"),))
        for model, mean in prior["mean"].items()
    ]
    caption = (
        "Every model: test scores averaged over the eight classes of algorithms (the paper's Figure 1). Bars are ours, "
        "marks the paper's; where only the paper has a number the bar is empty. -pr: single-layer models as CLRS-30 "
        "published them."
    )
    return Picture("figure-1", caption, draw_bars("Averages over the eight classes of algorithms", groups))


def class_chart(archive: Archive) -> Picture:
    """RT on each of the eight classes."""
    cells = [cell for cell in classes(archive).cells if cell.column == title_of("rt")]
    groups = [
        Group(cell.row, (Bar(cell.column, cell.estimate, cell.paper, strong=True, absent=cell.present or "missing"),))
        for cell in cells
    ]
    caption = "RT: test scores by class of algorithms. Whiskers are one standard deviation over seeds."
    return Picture("rt-by-class", caption, draw_bars("RT by class of algorithms", groups))


def table_chart(table: Table) -> Picture:
    """A bar chart of a table: a group for each row, a bar for each column."""
    cells = {(cell.row, cell.column): cell for cell in table.cells}
    groups = [
        Group(
            row,
            tuple(
                Bar(column, cells[row, column].estimate, cells[row, column].paper, strong=column == "RT")
                for column in table.columns
            ),
        )
        for row in table.rows
    ]
    return Picture(table.name, f"{table.title}: bars are ours, marks the paper's.", _fitted(table, groups))


def single_chart(table: Table) -> Picture:
    """A bar chart of a table with one row: a bar for each column."""
    groups = [
        Group(cell.column, (Bar(cell.column, cell.estimate, cell.paper, strong=cell.column == "RT"),))
        for cell in table.cells
    ]
    return Picture(table.name, f"{table.title}: bars are ours, marks the paper's.", _fitted(table, groups))


def histograms(archive: Archive) -> list[Picture]:
    """The paper's figures of variance, with our numbers alone: the paper does not print the numbers of its figures."""
    models = [model for model in MODELS if model != "pgn_combined"]
    tasks = tuple(numbers()["main"]["mean"])

    def scores(model: str, chosen: Sequence[str]) -> list[float]:
        return [score for task in chosen for one in archive.of(task, model)[:1] for score in one.scores.values()]

    one = {title_of(model): scores(model, ("naive_string_matcher",)) for model in models}
    every = {title_of(model): scores(model, tasks) for model in models}
    measured = max(sum(bool(archive.of(task, model)) for task in tasks) for model in models)
    share = "percent of our runs by their test score"
    return [
        Picture(
            "histogram-naive-string-matcher",
            f"Naïve String Matcher: {share}. Many of the paper's runs of RT reached 80%; no baseline passed 20%.",
            draw_histograms("Test scores of single runs on the naïve string matcher", one),
        ),
        Picture(
            "histogram-all-tasks",
            f"All tasks ({measured} of {len(tasks)} measured): {share}.",
            draw_histograms("Test scores of single runs on all tasks", every),
        ),
    ]


def learning_curves(archive: Archive) -> list[Picture]:
    """A figure for every task with metrics beside a result. A model has the same colour in all figures."""
    found = {task: _curves(archive, task) for task in (*numbers()["main"]["mean"], *OTHERS)}
    models = dict.fromkeys([title_of("rt"), *(model for curves in found.values() for model in curves)])
    colors = {model: number for number, model in enumerate(models)}
    return [Picture(f"curves-{task}", "", _drawn(task, curves, colors)) for task, curves in found.items() if curves]


def _drawn(task: str, curves: dict[str, Curve], colors: dict[str, int]) -> Drawing:
    kind = find_task(kind_of(task))
    title, seen = kind.title or TASK_TITLES[task], kind.examples_are
    if kind.higher_is_better:
        return draw_curves(title, curves, colors, seen=seen)
    return draw_curves(title, curves, colors, nice_top([min(max(curve.mean), 1.0) for curve in curves.values()]), seen)


def _curves(archive: Archive, task: str) -> dict[str, Curve]:
    """The curves of a task by model, from the nearest result to the paper's that has metrics."""
    found = {}
    for variant in archive.variants(task):
        curves = [read_curve(result) for result in archive.of(task, variant)]
        there = [curve for curve in curves if curve is not None]
        if there:
            found[title_on(task, variant)] = there[0]
    return found


def _fitted(table: Table, groups: Sequence[Group]) -> Drawing:
    if table.unit == "%":
        return draw_bars(table.title, groups)
    values = [one.mean for cell in table.cells for one in (cell.estimate, cell.paper) if one]
    return draw_bars(table.title, groups, nice_top(values), table.decimals)
