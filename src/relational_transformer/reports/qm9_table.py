"""Properties of molecules: our errors on QM9 beside those that others have published."""

import json
from functools import cache
from importlib import resources
from typing import Any

from relational_transformer.molecules.config import PREFIX
from relational_transformer.molecules.targets import TARGETS

from .results.archive import Archive
from .results.cell import Cell
from .results.estimate import Estimate
from .table import Table


@cache
def published() -> dict[str, dict[str, Any]]:
    """By model, the source and the mean absolute errors of its paper.

    >>> published()["SchNet"]["mean"]["gap"]
    63
    """
    content = json.loads(resources.files("relational_transformer.reports").joinpath("qm9.json").read_text())
    return {model: numbers for model, numbers in content.items() if model != "about"}


def qm9(archive: Archive) -> Table:
    """A row for every target that was measured (or all of them, where none was) and every published model."""
    in_print = [target for target in TARGETS if any(target in one["mean"] for one in published().values())]
    ours = {target: archive.find(PREFIX + target, "rt") for target in in_print}
    cells = [
        Cell(_named(target), model, ours[target], Estimate.printed(numbers["mean"][target], None, 1))
        for target in [target for target in in_print if ours[target] is not None] or in_print
        for model, numbers in published().items()
        if target in numbers["mean"]
    ]
    return Table(
        name="qm9",
        title="QM9: mean absolute test errors beside published ones",
        source="",
        cells=tuple(cells),
        row_header="target",
        column_header="beside",
        paper_header="published",
        unit="mean absolute error, lower is better",
        decimals=3,
        kind="shown",
        remarks=(
            "Ours is RT with bonds and distances as edge vectors, in which every pair of atoms attends. Beside it "
            "stands the published error of each of these models; below zero, ours is better. Others train and test on "
            "other molecules, about as many.",
            *(f"{model}: {numbers['source']}." for model, numbers in published().items()),
        ),
    )


def _named(target: str) -> str:
    return f"{target} ({TARGETS[target].unit})"
