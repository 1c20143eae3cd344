"""What `rt train` shows of any task: a live line while it runs, a table at the end."""

import statistics
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from relational_transformer.runs import RunFolder, Task, Trainer

from .train_live_line import LiveLine, duration, range_of, say


class Display(LiveLine):
    """A live line with loss, validation scores, speed and time left."""

    def __init__(self, task: Task[Any]) -> None:
        super().__init__(f"{task.config.task} x {len(task.config.seeds)}")
        self.task = task

    def update(self, trainer: Trainer) -> None:
        """Show how far the trainer is."""
        now, task = trainer.progress(), self.task
        scores = range_of([score * task.shown_times for score in now.validation], task.shown_as)
        status = (
            f"loss {range_of(now.losses, '.3g')}   validation {scores}{task.unit}   "
            f"{now.examples_per_second:,.0f} {task.examples_are}/s   {duration(now.seconds_left)} left"
        )
        self.show(now.examples / now.total_examples, status, now.finite)

    def show_result(self, result: dict[str, Any], metrics: Sequence[dict[str, Any]], folder: RunFolder) -> None:
        """The scores of every seed, what they mean, and where everything is."""
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
        say(f"result   {folder.result}")

    def score(self, score: float | None) -> str:
        task = self.task
        return "-" if score is None else f"{score * task.shown_times:{task.shown_as}}{task.unit}"

    def mean(self, scores: Sequence[float]) -> str:
        """With the standard deviation over seeds, where there are two."""
        if not scores:
            return "-"
        task = self.task
        deviation = f" ± {statistics.stdev(scores) * task.shown_times:{task.shown_as}}" if len(scores) > 1 else ""
        return self.score(statistics.mean(scores)) + deviation
