"""The paper's two other experiments: lobster graphs and Sokoban."""

import math
from collections.abc import Mapping
from typing import Any

from .archive import Archive
from .cell import Cell, Ours
from .estimate import Estimate
from .measured import Measured
from .paper import numbers
from .table import Table
from .variants import PAPER_PRECISION, changes_in_words, title_of


def lobster(archive: Archive) -> Table:
    """Relative loss on shortest paths in lobster graphs."""
    paper = numbers()["lobster"]
    cells = [
        Cell("Lobster graphs of size 100", model.upper(), _nearest(archive, "lobster", model), _lobster_paper(mean))
        for model, mean in paper["mean"].items()
    ]
    return Table(
        name="lobster",
        title="Mean relative loss on shortest paths in lobster graphs",
        source=paper["table"],
        cells=tuple(cells),
        unit="relative loss, lower is better",
        decimals=3,
        paper_decimals=2,
        remarks=("The paper prints two decimals and no deviation.",),
    )


def sokoban(archive: Archive) -> Table:
    """Puzzles left unsolved by the agent."""
    paper = numbers()["sokoban"]
    cells = [
        Cell("Sokoban", title_of(model), _nearest(archive, "sokoban", model), _sokoban_paper(model))
        for model in paper["mean"]
    ]
    return Table(
        name="sokoban",
        title="Sokoban: unsolved test puzzles",
        source=paper["table"],
        cells=tuple(cells),
        unit="% unsolved, lower is better",
        paper_decimals=0,
        remarks=(
            "The paper prints whole percents with standard errors of 0.3 and 0.7, and not of how many runs; the "
            "rounding is counted into its error.",
        ),
    )


def _nearest(archive: Archive, task: str, model: str) -> Ours | None:
    """The result under the paper's settings, else the one that trained longest, then the one with most seeds."""
    found = [result for result in archive.results if result.task == task and result.model == model]
    if not found:
        return None
    return ours_of(min(found, key=lambda result: (bool(_departures(result)), -_length(result), -len(result.scores))))


def ours_of(result: Measured) -> Ours:
    """A result of one of these experiments as a cell shows it."""
    different = _departures(result)
    precision = result.config.get("precision", "fp32")
    notes = [", ".join(different)] if different else []
    notes += [f"precision {precision}"] if precision not in PAPER_PRECISION else []
    return Ours(result.estimate, len(result.failed), tuple(notes), comparable=not different)


def _departures(result: Measured) -> tuple[str, ...]:
    return tuple(
        words
        for part, usual in _usual(result.task, result.model).items()
        for words in changes_in_words(result.config[part], usual)
    )


def _usual(task: str, model: str) -> dict[str, Mapping[str, Any]]:
    """The paper's protocol and settings, by the part of the configuration that holds them."""
    from relational_transformer.lobster.protocol import LobsterProtocol
    from relational_transformer.lobster.settings import SETTINGS

    settings = {str(name): vars(one) for name, one in SETTINGS.items()}
    return {"protocol": vars(LobsterProtocol()), "settings": settings[model]}


def _length(result: Measured) -> int:
    return result.config.get("protocol", {}).get("examples", 0)


def _lobster_paper(mean: float) -> Estimate:
    return Estimate(mean, None, numbers()["lobster"]["seeds"], None, None)


def _sokoban_paper(model: str) -> Estimate:
    """The paper's standard error, with that of rounding to whole percents, 1 / sqrt(12)."""
    paper = numbers()["sokoban"]
    error = math.hypot(paper["standard_error"][model], 1 / math.sqrt(12))
    return Estimate(paper["mean"][model], None, 0, error, math.inf)
