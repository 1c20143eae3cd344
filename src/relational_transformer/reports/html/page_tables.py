"""The layout of a table on the page: wide as in the paper, with all information on a number in its cell."""

from dataclasses import dataclass

from ..results.cell import Cell
from ..table import Judgement, Table
from ..wording import difference_of, explanations, headers, mark, marks_of, number, ours_of, paper_of, rows, seeds_of

LEGEND = (
    "A cell has our mean ± standard deviation over seeds; below it, in another colour, the paper's; then the "
    "difference and the number of our seeds. ≈ in the noise, ≠ more than noise, no sign: not tested."
)
SIGNS = {"yes": "≈", "no": "≠", "-": ""}


@dataclass(frozen=True)
class PageCell:
    """The texts of one cell, which may be empty. `kind` is its CSS class: yes, no, unjudged or absent."""

    kind: str
    ours: str = ""
    spread: str = ""
    marks: str = ""
    absent: str = ""
    parts: str = ""
    paper: str = ""
    verdict: str = ""
    seeds: str = ""


@dataclass(frozen=True)
class PageRow:
    label: str
    cells: tuple[PageCell, ...]
    last: bool


@dataclass(frozen=True)
class PageTable:
    """The wide table, and below it the long one with seeds, intervals and p-values."""

    row_header: str
    columns: tuple[str, ...]
    rows: tuple[PageRow, ...]
    notes: tuple[str, ...]
    long_headers: tuple[str, ...]
    long_rows: tuple[tuple[str, ...], ...]


def lay_out(table: Table) -> PageTable:
    """The table for the page. The long table is left out if there is no result."""
    found = {(cell.row, cell.column): (cell, one) for cell, one in zip(table.cells, table.judgements, strict=True)}
    columns = sorted(
        table.columns, key=lambda column: len(table.columns) > 3 and column != "RT"
    )  # RT without scrolling
    wide = [
        PageRow(
            row,
            tuple(
                _cell(*found[row, column], table) if (row, column) in found else PageCell("absent")
                for column in columns
            ),
            last=row in ("Average", "Over all runs"),
        )
        for row in table.rows
    ]
    numbered = tuple(f"{mark(k)} {note}." for k, note in enumerate(table.notes, start=1))
    measured = table.without_missing_columns()
    return PageTable(
        row_header=table.row_header,
        columns=tuple(columns),
        rows=tuple(wide),
        notes=(
            *numbered,
            *((LEGEND,) if table.kind == "tested" and table.measured else ()),
            *explanations(table),
            *table.remarks,
        ),
        long_headers=headers(measured),
        long_rows=tuple(rows(measured)) if table.measured and table.kind == "tested" else (),
    )


def _cell(cell: Cell, one: Judgement | None, table: Table) -> PageCell:
    paper = paper_of(cell, table) if cell.paper else ""
    if cell.ours is None:
        return PageCell("absent", absent="missing", parts=cell.present or "", paper=paper)
    if cell.estimate is None:
        return PageCell("absent", absent=ours_of(cell, table), paper=paper)
    shown, _, spread = number(cell.estimate, table.decimals, table.decimals).partition(" ")
    return PageCell(
        kind=_kind(one),
        ours=shown,
        spread=f" {spread}" if spread else "",
        marks=marks_of(cell, table),
        paper=paper,
        verdict=_verdict(cell, one, table),
        seeds=_seeds(cell) if table.kind in ("tested", "shown") else "",
    )


def _kind(one: Judgement | None) -> str:
    if one is None or one.verdict == "-":
        return "unjudged"
    return one.verdict


def _verdict(cell: Cell, one: Judgement | None, table: Table) -> str:
    if one is None:
        return ""
    shown = difference_of(cell, one, table).partition(" ")[0]
    if table.kind == "ratio":
        return f"× {shown}"
    if table.kind == "exact":
        return "equal" if one.verdict == "yes" else shown
    assumed = "†" if one.difference.assumed and one.p is not None else ""
    return f"{shown} {SIGNS[one.verdict]}{assumed}".strip()


def _seeds(cell: Cell) -> str:
    count = seeds_of(cell)
    return "" if count.startswith("-") else f"n={count}"
