"""What `rt train sokoban` shows: a live line while it runs, a table at the end."""

import math
import statistics
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table

from relational_transformer.sokoban import SokobanConfig
from relational_transformer.sokoban.trainer import SokobanTrainer
from relational_transformer.training.run_folder import RunFolder


class SokobanDisplay:
    """A progress bar with the share of solved games, speed and time left; plain lines where there is no terminal."""

    def __init__(self, config: SokobanConfig) -> None:
        self.console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            TextColumn("{task.fields[status]}"),
            console=self.console,
        )
        self.bar = self.progress.add_task(f"sokoban x {len(config.seeds)}", total=1, status="getting levels")
        self.last_printed = -1.0

    def __enter__(self) -> "SokobanDisplay":
        if self.console.is_terminal:
            self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.console.is_terminal:
            self.progress.stop()

    def update(self, trainer: SokobanTrainer) -> None:
        """Show how far the trainer is."""
        now = trainer.progress()
        done = now.steps / now.total_steps
        status = (
            f"solved {_range([100 * share for share in now.solved])}%   "
            f"{now.steps_per_second:,.0f} steps/s   {_duration(now.seconds_left)} left"
        )
        failed = now.finite.count(False)
        status += f"   {failed} of {len(now.finite)} seeds failed" if failed else ""
        self.progress.update(self.bar, completed=done, status=status)
        if not self.console.is_terminal and done >= self.last_printed + 0.05:
            self.console.print(f"{done:4.0%}   {status}", highlight=False, soft_wrap=True)
            self.last_printed = done


def show_result(result: dict[str, Any], folder: RunFolder) -> None:
    """The share of test levels that every seed solves, and where everything is."""
    count = result.get("levels", {}).get("test", result["config"]["test_levels"])  # not all results name their levels
    table = Table(title=f"{result['config']['model']} on sokoban: share of {count:,} test levels solved")
    for column in ("seed", "best while training", "after steps", "test, sampled", "test, greedy", "last, sampled"):
        table.add_column(column, justify="right")
    for row in result["seeds"]:
        steps = row["examples_of_best"]
        shares = [row[name] for name in ("test", "test_greedy", "test_of_last")]
        table.add_row(
            str(row["seed"]),
            _percent(row["validation"]),
            "-" if steps is None else f"{steps:,}",
            *(["failed"] * 3 if row["failed"] else [_percent(share) for share in shares]),
        )
    scores = [100 * row["test"] for row in result["seeds"] if not row["failed"]]
    if len(scores) > 1:
        error = statistics.stdev(scores) / math.sqrt(len(scores))
        table.add_row("mean", "", "", f"{statistics.mean(scores):.1f}% ± {error:.1f} s.e.", "", "")
    Console().print(table)
    say(f"result   {folder.result}")


def say(line: str) -> None:
    Console().print(line, highlight=False, markup=False, soft_wrap=True)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def _range(values: list[float]) -> str:
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return "-"
    low, high = f"{min(known):.1f}", f"{max(known):.1f}"
    return low if low == high else f"{low} to {high}"


def _duration(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "?"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
