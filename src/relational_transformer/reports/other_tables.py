"""The paper's two other experiments: lobster graphs and Sokoban."""

import math

from .paper import numbers
from .results.archive import Archive
from .results.cell import Cell
from .results.estimate import Estimate, rounding_error
from .results.lobster_runs import describe_oracles, describe_runs
from .results.variants import title_on
from .table import Table


def lobster(archive: Archive) -> Table:
    """Relative loss on shortest paths in lobster graphs."""
    paper = numbers()["lobster"]
    cells = [
        Cell(
            "Lobster graphs of size 100",
            title_on("lobster", model),
            archive.find("lobster", model),
            Estimate(mean, None, paper["seeds"], None, None, rounding_error(0.01)),
        )
        for model, mean in paper["mean"].items()
    ]
    others = tuple(one for one in archive.variants("lobster") if one not in paper["mean"])
    cells += [Cell(cells[0].row, title_on("lobster", one), archive.find("lobster", one), None) for one in others]
    return Table(
        name="lobster",
        title="Mean relative loss on shortest paths in lobster graphs",
        source=paper["table"],
        cells=tuple(cells),
        unit="relative loss, lower is better",
        decimals=3,
        paper_decimals=2,
        remarks=(
            "The paper prints two decimals and no deviation; the rounding counts as an error.",
            "The paper does not say how RT decodes distances, nor how it encodes edges; both were chosen here.",
            describe_oracles(),
            *describe_runs(archive, (*paper["mean"], *others)),
        ),
    )


def sokoban(archive: Archive) -> Table:
    """Puzzles left unsolved by the agent."""
    paper = numbers()["sokoban"]
    cells = [
        Cell("Sokoban", title_on("sokoban", model), archive.find("sokoban", model), _printed(mean, error))
        for (model, mean), error in zip(paper["mean"].items(), paper["standard_error"].values(), strict=True)
    ]
    return Table(
        name="sokoban",
        title="Sokoban: unsolved test puzzles",
        source=paper["table"],
        cells=tuple(cells),
        unit="% unsolved, lower is better",
        paper_decimals=0,
        remarks=(
            "The paper prints whole percents with standard errors of 0.3 and 0.7, and not the number of runs; the "
            "rounding counts as an error.",
        ),
    )


def _printed(mean: float, error: float) -> Estimate:
    """A whole number with a standard error, from an unknown number of runs."""
    return Estimate(mean, None, 0, error, math.inf, rounding_error(1.0))


OTHERS = {"lobster": lobster, "sokoban": sokoban}
"""The functions that make the tables of the experiments besides CLRS-30, by task."""
