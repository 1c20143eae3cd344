"""The texts of a table's cells."""

from collections.abc import Iterator

from .results.cell import Cell
from .results.estimate import Estimate
from .results.significance import LEVEL
from .table import Judgement, Table

_SUPERSCRIPTS = str.maketrans("0123456789,", "⁰¹²³⁴⁵⁶⁷⁸⁹˒")


def headers(table: Table) -> tuple[str, ...]:
    """The headings of the columns of `rows`."""
    unit = f" ({table.unit})" if table.unit else ""
    last = {
        "tested": ("difference [95%]", "p (Holm)", "in the noise"),
        "exact": ("difference", "equal"),
        "shown": ("difference",),
        "ratio": ("ours / paper",),
    }
    return (table.row_header, table.column_header, "seeds", f"ours{unit}", table.paper_header, *last[table.kind])


def rows(table: Table) -> Iterator[tuple[str, ...]]:
    """A row of text for every cell."""
    for cell, one in zip(table.cells, table.judgements, strict=True):
        yield (
            cell.row,
            cell.column,
            seeds_of(cell),
            ours_of(cell, table),
            paper_of(cell, table),
            difference_of(cell, one, table),
            *((probability(one.p) if one and one.p is not None else "-",) if table.kind == "tested" else ()),
            *((verdict_of(one),) if table.kind in ("tested", "exact") else ()),
        )


def seeds_of(cell: Cell) -> str:
    """`20`, or `19 (1 failed)`."""
    if cell.ours is None:
        return "-"
    seeds = cell.estimate.seeds if cell.estimate else 0
    return f"{seeds or '-'}" + (f" ({cell.ours.failed} failed)" if cell.ours.failed else "")


def ours_of(cell: Cell, table: Table) -> str:
    """Our number with the marks of its footnotes, or a note that it is missing."""
    if cell.ours is None:
        return "-" if cell.column in table.published_columns else missing(cell)
    shown = number(cell.estimate, table.decimals, table.decimals) if cell.estimate else "all seeds failed"
    return shown + marks_of(cell, table)


def paper_of(cell: Cell, table: Table) -> str:
    """The paper's number with the decimals that the paper prints."""
    places = table.decimals if table.paper_decimals is None else table.paper_decimals
    return number(cell.paper, places, 1) if cell.paper else "-"


def number(estimate: Estimate, places: int, places_of_deviation: int) -> str:
    """Mean and deviation."""
    deviation = f" ± {estimate.deviation:,.{places_of_deviation}f}" if estimate.deviation is not None else ""
    return f"{estimate.mean:,.{places}f}{deviation}"


def difference_of(cell: Cell, one: Judgement | None, table: Table) -> str:
    """The difference and its 95% interval, or the ratio. † marks an interval for which one side's deviation was taken
    for both."""
    if one is None or cell.estimate is None or cell.paper is None:
        return "-"
    if table.kind == "ratio":
        return f"{cell.estimate.mean / cell.paper.mean:,.1f}"
    found, places = one.difference, table.decimals
    text = f"{found.value:+z,.{places}f}"
    if found.low is None or found.high is None or table.kind != "tested":
        return text
    is_unmarked = found.assumed and one.verdict == "-"  # a verdict has the mark itself
    return f"{text} [{found.low:+z,.{places}f}, {found.high:+z,.{places}f}]{' †' if is_unmarked else ''}"


def verdict_of(one: Judgement | None) -> str:
    """Whether the difference is in the noise. † marks a test for which one side's deviation was taken for both."""
    if one is None or one.verdict == "-":
        return "-"
    return one.verdict + (" †" if one.difference.assumed else "")


def explanations(table: Table) -> list[str]:
    """Explanations of the tests of this table."""
    if table.kind != "tested" or not table.measured:
        return []
    told = []
    if table.comparisons:
        told.append(
            f"In the noise is yes if Welch's t-test finds no difference at level {LEVEL}, with p-values corrected by "
            f"Holm for the {table.comparisons} comparisons of this table. With few seeds only large differences are "
            "found, so a yes does not prove equality."
        )
    if any("†" in text for cells in rows(table) for text in cells):
        told.append(
            "† One side has a single seed or no printed deviation, so the other side's deviation is taken for both."
        )
    if any(cell.ours is not None and not cell.ours.comparable for cell in table.cells):
        told.append(
            "A run with other settings than the paper's has them in a footnote; its difference is shown and not tested."
        )
    return told


def probability(p: float) -> str:
    """A p-value as text."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def marks_of(cell: Cell, table: Table) -> str:
    """The marks of a cell's footnotes."""
    return mark(*(table.notes.index(note) + 1 for note in (cell.ours.notes if cell.ours else ())))


def mark(*numbers: int) -> str:
    """Footnote marks.

    >>> mark(1, 12)
    '¹˒¹²'
    """
    return ",".join(str(one) for one in sorted(numbers)).translate(_SUPERSCRIPTS)


def missing(cell: Cell) -> str:
    """The note that there is no number, and for an average the number of its parts with results."""
    return "missing" + (f" ({cell.present})" if cell.present else "")
