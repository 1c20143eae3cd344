"""What `rt train` shows: a live line while it runs, a table at the end."""

import statistics
from typing import Any

from rich.console import Console
from rich.table import Table

from relational_transformer.runs import RunFolder
from relational_transformer.runs.trainer import Trainer
from relational_transformer.training import TrainConfig

from .train_live_line import LiveLine, duration, range_of, say


class Display(LiveLine):
    """A live line with loss, validation scores, speed and time left."""

    def __init__(self, config: TrainConfig) -> None:
        super().__init__(f"{config.task} x {len(config.seeds)}")
        self.config = config

    def update(self, trainer: Trainer) -> None:
        """Show how far the trainer is."""
        now = trainer.progress()
        status = (
            f"loss {range_of(now.losses, '.3f')}   "
            f"validation {range_of([100 * score for score in now.validation], '.1f')}%   "
            f"{now.examples_per_second:,.0f} examples/s   {duration(now.seconds_left)} left"
        )
        self.show(now.examples / now.total_examples, status, now.finite)

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
        say(f"result   {folder.result}")
