"""The output of `rt train`: a progress line during training, a table at the end."""

import math
import statistics
from collections.abc import Sequence
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn
from rich.table import Table

from relational_transformer.runs import RunFolder, Task, Trainer

PRINTED_EVERY = 0.05
"""The share of a run between two printed lines, where there is no terminal."""


class LiveLine:
    """A progress bar followed by a status."""

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
        """Show the share that is done, from 0 to 1, a status, and the number of failed seeds. From share 1 on the run
        is being tested."""
        failed = finite.count(False)
        status += "   testing" if done >= 1 else ""
        status += f"   {failed} of {len(finite)} seeds failed" if failed else ""
        self.progress.update(self.bar, completed=done, status=status)
        is_due = done >= self.last_printed + PRINTED_EVERY or self.last_printed < 1 <= done
        if not self.console.is_terminal and is_due:
            self.console.print(f"{done:4.0%}   {status}", highlight=False, soft_wrap=True)
            self.last_printed = done


def say(line: str) -> None:
    """Print a line on standard output, without formatting."""
    Console().print(line, highlight=False, markup=False, soft_wrap=True)


def range_of(values: Sequence[float], form: str) -> str:
    """The range of the finite values, in the format `form`.

    >>> range_of([0.52, 0.5, float("nan")], ".1f"), range_of([1.0, 2.0], ".0f"), range_of([], ".0f")
    ('0.5', '1 to 2', '-')
    """
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return "-"
    low, high = format(min(known), form), format(max(known), form)
    return low if low == high else f"{low} to {high}"


def duration(seconds: float) -> str:
    """A duration in hours, minutes and seconds.

    >>> duration(75), duration(3675), duration(float("nan"))
    ('1:15', '1:01:15', '?')
    """
    if not math.isfinite(seconds):
        return "?"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


class Display(LiveLine):
    """The progress line of a run: loss, validation scores, speed and time left."""

    def __init__(self, task: Task[Any]) -> None:
        super().__init__(f"{task.config.task} x {len(task.config.seeds)}")
        self.task = task

    def update(self, trainer: Trainer) -> None:
        """Show the progress of the trainer."""
        now, task = trainer.progress(), self.task
        scores = range_of([score * task.shown_times for score in now.validation], task.shown_as)
        status = (
            f"loss {range_of(now.losses, '.3g')}   validation {scores}{task.unit}   "
            f"{now.examples_per_second:,.0f} {task.examples_are}/s   {duration(now.seconds_left)} left"
        )
        self.show(now.examples / now.total_examples, status, now.finite)

    def show_result(self, result: dict[str, Any], metrics: Sequence[dict[str, Any]], folder: RunFolder) -> None:
        """Print the scores of every seed, a note on how to read them, and the path of the result."""
        task, headings = self.task, self.task.headings
        table = Table(title=f"{task.config.model} on {task.config.task}{f': {task.measure}' if task.measure else ''}")
        for column in ("seed", "loss", "validation", "best after", *headings.values()):
            table.add_column(column, justify="right")
        losses = metrics[-1]["loss"] if metrics else ["-"] * len(result["seeds"])
        for row, loss in zip(result["seeds"], losses, strict=True):
            table.add_row(
                str(row["seed"]),
                "failed" if loss is None else loss if isinstance(loss, str) else f"{loss:.3g}",
                self.score(row.get("validation")),
                f"{row['examples_of_best']:,}" if row.get("examples_of_best") else "-",
                *("failed" if row["failed"] else self.score(row.get(name)) for name in headings),
            )
        known = [[row[name] for row in result["seeds"] if row.get(name) is not None] for name in headings]
        if len(result["seeds"]) > 1:
            table.add_row("mean", "", "", "", *(self.mean(scores) for scores in known))
        Console().print(table)
        note = task.note([row["test"] for row in result["seeds"] if row["test"] is not None])
        if note:
            Console().print(note, highlight=False)
        if (seconds := result.get("seconds_to_first_step")) is not None:
            say(f"start    {seconds:.1f} s to the first step")
        say(f"result   {folder.result}")

    def score(self, score: float | None) -> str:
        return "-" if score is None else self.task.shown(score)

    def mean(self, scores: Sequence[float]) -> str:
        """The mean, with the standard deviation if there are at least two seeds."""
        if not scores:
            return "-"
        task = self.task
        deviation = f" ± {statistics.stdev(scores) * task.shown_times:{task.shown_as}}" if len(scores) > 1 else ""
        return self.score(statistics.mean(scores)) + deviation
