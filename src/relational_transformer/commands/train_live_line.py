"""One live line while a run goes on; plain lines where there is no terminal."""

import math
from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn

PRINTED_EVERY = 0.05
"""Of the whole, where there is no terminal."""


class LiveLine:
    """A progress bar with a status behind it."""

    def __init__(self, description: str, status: str = "starting", *columns: ProgressColumn) -> None:
        self.console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            *columns,
            TextColumn("{task.fields[status]}"),
            console=self.console,
        )
        self.bar = self.progress.add_task(description, total=1, status=status)
        self.last_printed = -1.0

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.console.is_terminal:
            self.progress.stop()

    def show(self, done: float, status: str, finite: Sequence[bool]) -> None:
        """How much is done, from 0 to 1, what to say of it, and which seeds have not failed. What is left at the end is
        the test."""
        failed = finite.count(False)
        status += "   testing" if done >= 1 else ""
        status += f"   {failed} of {len(finite)} seeds failed" if failed else ""
        self.progress.update(self.bar, completed=done, status=status)
        is_due = done >= self.last_printed + PRINTED_EVERY or self.last_printed < 1 <= done
        if not self.console.is_terminal and is_due:
            self.console.print(f"{done:4.0%}   {status}", highlight=False, soft_wrap=True)
            self.last_printed = done


def say(line: str) -> None:
    """A line on standard output, as it is."""
    Console().print(line, highlight=False, markup=False, soft_wrap=True)


def range_of(values: Sequence[float], form: str) -> str:
    """The smallest to the largest of the numbers that are known.

    >>> range_of([0.52, 0.5, float("nan")], ".1f"), range_of([1.0, 2.0], ".0f"), range_of([], ".0f")
    ('0.5', '1 to 2', '-')
    """
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return "-"
    low, high = format(min(known), form), format(max(known), form)
    return low if low == high else f"{low} to {high}"


def duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> duration(75), duration(3675), duration(float("nan"))
    ('1:15', '1:01:15', '?')
    """
    if not math.isfinite(seconds):
        return "?"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
