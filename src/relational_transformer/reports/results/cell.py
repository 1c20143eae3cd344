"""One number of a table: ours, the paper's, and notes on them."""

from collections.abc import Sequence
from dataclasses import dataclass

from .estimate import Estimate, average


@dataclass(frozen=True)
class Ours:
    """Our result for a cell.

    `estimate` is None if every seed failed. `notes` name the differences from the paper's run. If they make it another
    experiment, the number is not `comparable`: it is shown, and not tested.
    """

    estimate: Estimate | None
    failed: int = 0
    notes: tuple[str, ...] = ()
    comparable: bool = True


@dataclass(frozen=True)
class Cell:
    """Our number beside the paper's; None where there is none. For an average over tasks that is missing, `present`
    says how many of them have results."""

    row: str
    column: str
    ours: Ours | None
    paper: Estimate | None
    present: str | None = None

    @property
    def estimate(self) -> Estimate | None:
        return self.ours.estimate if self.ours is not None else None


def average_of(parts: Sequence[Ours | None]) -> Ours | None:
    """The average over tasks or classes, if all of them have results."""
    there = [part for part in parts if part is not None]
    estimates = [part.estimate for part in there if part.estimate is not None]
    if len(estimates) < len(parts):
        return None
    return Ours(
        estimate=average(estimates),
        failed=sum(part.failed for part in there),
        notes=tuple(dict.fromkeys(note for part in there for note in part.notes)),
        comparable=all(part.comparable for part in there),
    )


def count_present(parts: Sequence[Ours | None], of: str) -> str:
    """The number of parts with results: "8 of 30 tasks"."""
    present = sum(part is not None and part.estimate is not None for part in parts)
    return f"{present} of {len(parts)} {of}"
