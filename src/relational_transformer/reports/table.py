"""A table of the paper with our numbers beside its own, and a test of every difference."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from .results.cell import Cell
from .results.significance import LEVEL, Difference, difference, holm

Kind = Literal["tested", "exact", "shown", "ratio"]


@dataclass(frozen=True)
class Judgement:
    """A difference and whether it is in the noise. `p` is corrected for the other comparisons of the table."""

    difference: Difference
    p: float | None
    verdict: Literal["yes", "no", "-"]


@dataclass(frozen=True)
class Table:
    """Cells in reading order. Depending on `kind`, differences are `tested`, numbers must be `exact`ly equal, or the
    difference or `ratio` is only `shown`.

    >>> from relational_transformer.reports.results.estimate import Estimate
    >>> from relational_transformer.reports.results.cell import Ours
    >>> cell = Cell("BFS", "RT", Ours(Estimate.of([99.0, 98.0])), Estimate.printed(99.14, 0.7, 20))
    >>> Table("bfs", "An example", "", (cell,)).judgements[0].verdict
    'yes'
    """

    name: str
    title: str
    source: str
    cells: tuple[Cell, ...]
    row_header: str = "task"
    column_header: str = "model"
    unit: str = "%"
    decimals: int = 2
    paper_decimals: int | None = None
    """The paper's number of decimals, if it is smaller."""
    kind: Kind = "tested"
    paper_header: str = "paper"
    """Whose numbers stand beside ours."""
    published_columns: tuple[str, ...] = ()
    """Columns that nothing of ours belongs into."""
    untested_columns: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    is_brief: bool = False
    """Whether Markdown leaves out p-values, and columns that are the same in all rows, which a line below names."""

    @property
    def rows(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.column for cell in self.cells))

    @property
    def measured(self) -> bool:
        """Whether any cell has a result."""
        return any(cell.ours is not None for cell in self.cells)

    @cached_property
    def judgements(self) -> tuple[Judgement | None, ...]:
        """A judgement for every cell; None where our number or the paper's is missing."""
        found = [self._compare(cell) for cell in self.cells]
        p_values = {
            number: one.p
            for number, (cell, one) in enumerate(zip(self.cells, found, strict=True))
            if one is not None and one.p is not None and self._is_tested(cell)
        }
        corrected = dict(zip(p_values, holm(list(p_values.values())), strict=True))
        return tuple(self._judge(one, corrected.get(number)) for number, one in enumerate(found))

    @property
    def comparisons(self) -> int:
        """The number of differences that were tested."""
        return sum(one is not None and one.p is not None for one in self.judgements)

    @property
    def notes(self) -> tuple[str, ...]:
        """The footnotes of all cells, each once."""
        return tuple(dict.fromkeys(note for cell in self.cells if cell.ours for note in cell.ours.notes))

    def without_missing_columns(self) -> "Table":
        """The table without columns that have no results, which a remark names. A table without any result is
        unchanged."""
        there = {cell.column for cell in self.cells if cell.ours is not None or cell.column in self.published_columns}
        missing = [column for column in self.columns if column not in there]
        if not missing or not there:
            return self
        return replace(
            self,
            cells=tuple(cell for cell in self.cells if cell.column in there),
            remarks=(*self.remarks, f"Not measured: {'; '.join(missing)}."),
        )

    def only_columns(self, columns: Sequence[str]) -> "Table":
        """The table with these of its columns alone; that of a single column is brief."""
        for column in columns:
            if column not in self.columns:
                raise ValueError(f"the table {self.name} has no model {column!r}; it has {', '.join(self.columns)}")
        cells = tuple(cell for cell in self.cells if cell.column in columns)
        return replace(self, cells=cells, is_brief=len(set(columns)) == 1)

    def _is_tested(self, cell: Cell) -> bool:
        comparable = cell.ours is not None and cell.ours.comparable
        return self.kind == "tested" and comparable and cell.column not in self.untested_columns

    def _compare(self, cell: Cell) -> Difference | None:
        return difference(cell.estimate, cell.paper) if cell.estimate and cell.paper else None

    def _judge(self, one: Difference | None, p: float | None) -> Judgement | None:
        if one is None:
            return None
        if self.kind == "exact":
            return Judgement(one, None, "yes" if one.value == 0 else "no")
        return Judgement(one, p, "-" if p is None else "yes" if p > LEVEL else "no")
