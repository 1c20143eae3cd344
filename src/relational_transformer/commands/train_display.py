"""What `rt train` shows: a live line while it runs, a table at the end."""

import math
import statistics
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table

from relational_transformer.training import RunFolder, TrainConfig, Trainer


class Display:
    """A progress bar with loss, validation scores, speed and time left; plain lines where there is no terminal."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            TextColumn("{task.fields[status]}"),
            console=self.console,
        )
        self.bar = self.progress.add_task(f"{config.task} x {len(config.seeds)}", total=1, status="starting")
        self.last_printed = -1.0

    def __enter__(self) -> "Display":
        if self.console.is_terminal:
            self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.console.is_terminal:
            self.progress.stop()

    def update(self, trainer: Trainer) -> None:
        """Show how far the trainer is."""
        now = trainer.progress()
        done = now.examples / now.total_examples
        status = (
            f"loss {_range(now.losses, '.3f')}   "
            f"validation {_range([100 * score for score in now.validation], '.1f')}%   "
            f"{now.examples_per_second:,.0f} examples/s   {_duration(now.seconds_left)} left"
        )
        failed = now.finite.count(False)
        status += f"   {failed} of {len(now.finite)} seeds failed" if failed else ""
        self.progress.update(self.bar, completed=done, status=status)
        if not self.console.is_terminal and done >= self.last_printed + 0.05:
            self.console.print(f"{done:4.0%}   {status}", highlight=False, soft_wrap=True)
            self.last_printed = done

    def show_result(self, result: dict[str, Any], folder: RunFolder) -> None:
        """The scores of every seed, and where everything is."""
        protocol = self.config.protocol
        table = Table(title=f"{self.config.model} on {self.config.task}")
        for column in ("seed", "loss", "train", "validation", "best after", f"test, {protocol.test_nodes} nodes"):
            table.add_column(column, justify="right")
        losses = folder.read_metrics()[-1]["loss"]
        for row, loss in zip(result["seeds"], losses, strict=True):
            table.add_row(
                str(row["seed"]),
                "failed" if loss is None else f"{loss:.3f}",
                "failed" if row["failed"] else f"{100 * row['train']:.2f}%",
                "-" if row["validation"] is None else f"{100 * row['validation']:.2f}%",
                f"{row['examples_of_best']:,}" if row["examples_of_best"] else "-",
                "failed" if row["failed"] else f"{100 * row['test']:.2f}%",
            )
        scores = [100 * row["test"] for row in result["seeds"] if not row["failed"]]
        if len(scores) > 1:
            deviation = statistics.stdev(scores)
            table.add_row("mean", "", "", "", "", f"{statistics.mean(scores):.2f}% ± {deviation:.2f}")
        Console().print(table)
        self.say(f"result   {folder.result}")

    def say(self, line: str) -> None:
        Console().print(line, highlight=False, markup=False, soft_wrap=True)


def _range(values: list[float], form: str) -> str:
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return "-"
    low, high = format(min(known), form), format(max(known), form)
    return low if low == high else f"{low} to {high}"


def _duration(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "?"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
