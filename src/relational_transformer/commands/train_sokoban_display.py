"""What `rt train sokoban` shows: a live line while it runs, a table at the end."""

import math
import statistics
from typing import Any

from rich.console import Console
from rich.table import Table

from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.trainer import Trainer
from relational_transformer.sokoban import SokobanConfig

from .train_live_line import LiveLine, duration, range_of, say


class SokobanDisplay(LiveLine):
    """A live line with the share of solved games, speed and time left."""

    def __init__(self, config: SokobanConfig) -> None:
        super().__init__(f"sokoban x {len(config.seeds)}", "getting levels")

    def update(self, trainer: Trainer) -> None:
        """Show how far the trainer is."""
        now = trainer.progress()
        status = (
            f"solved {range_of([100 * share for share in now.validation], '.1f')}%   "
            f"{now.examples_per_second:,.0f} steps/s   {duration(now.seconds_left)} left"
        )
        self.show(now.examples / now.total_examples, status, now.finite)


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


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"
