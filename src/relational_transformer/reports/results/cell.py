"""One number of a table: ours, the paper's, and what must be said with it."""

from collections.abc import Sequence
from dataclasses import dataclass

from .estimate import Estimate, average


@dataclass(frozen=True)
class Ours:
    """What was measured for a cell.

    `estimate` is None where every seed failed. `notes` name what differs from the paper's run; where it makes another
    experiment of it, the number is not `comparable`: it is shown, and not judged.
    """

    estimate: Estimate | None
    failed: int = 0
    notes: tuple[str, ...] = ()
    comparable: bool = True


@dataclass(frozen=True)
class Cell:
    """Ours beside the paper's; None where there is nothing. `present` says of an average over tasks that is missing
    how many of them are there."""

    row: str
    column: str
    ours: Ours | None
    paper: Estimate | None
    present: str | None = None

    @property
    def estimate(self) -> Estimate | None:
        return self.ours.estimate if self.ours is not None else None


def average_of(parts: Sequence[Ours | None]) -> Ours | None:
    """The average over tasks or classes, if every one of them is there."""
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
    """How many are there: "8 of 30 tasks"."""
    present = sum(part is not None and part.estimate is not None for part in parts)
    return f"{present} of {len(parts)} {of}"
