"""What `rt train lobster` shows: a live line while it runs, a table of relative losses at the end."""

import statistics
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import TimeRemainingColumn
from rich.table import Table

from relational_transformer.lobster import LobsterConfig
from relational_transformer.lobster.oracle import CAPS, equivalent_cap, oracle_loss
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.trainer import Trainer

from .train_live_line import LiveLine, range_of, say


class LobsterDisplay(LiveLine):
    """A live line with squared error, relative loss on validation and speed."""

    def __init__(self, config: LobsterConfig) -> None:
        super().__init__(f"{config.model} x {len(config.seeds)}", "starting", TimeRemainingColumn())

    def update(self, trainer: Trainer) -> None:
        """Show how far the trainer is."""
        now = trainer.progress()
        status = (
            f"squared error {range_of(now.losses, '.3g')}   "
            f"relative loss on validation {range_of(now.validation, '.3g')}   "
            f"{now.examples_per_second:,.0f} graphs/s"
        )
        self.show(now.examples / now.total_examples, status, now.finite)


def show_result(result: dict[str, Any], folder: RunFolder) -> None:
    """The relative losses of every seed, what they mean, and where the result is."""
    config = LobsterConfig.from_dict(result["config"])
    protocol = config.protocol
    near = f"test, {protocol.smallest_size} to {protocol.end_size - 1}"
    table = Table(title=f"{config.model} on lobster graphs: relative loss")
    columns = {"train": "train", "validation": "validation", "test_in_distribution": near}
    columns["test"] = f"test, {protocol.test_size}"
    for column in ("seed", "best after", *columns.values()):
        table.add_column(column, justify="right")
    for row in result["seeds"]:
        cells = ["failed" if row["failed"] else _number(row[key]) for key in columns]
        table.add_row(str(row["seed"]), f"{row['examples_of_best']:,}" if row["examples_of_best"] else "-", *cells)
    good = {key: [row[key] for row in result["seeds"] if row[key] is not None] for key in columns}
    if len(good["test"]) > 1:
        table.add_row("mean", "", *(_number(statistics.mean(values) if values else None) for values in good.values()))
    console = Console()
    console.print(table)
    if good["test"]:
        console.print(meaning(statistics.mean(good["test"]), protocol.test_graphs().distances), highlight=False)
    say(f"result   {folder.result}")


def meaning(loss: float, distances: np.ndarray) -> str:
    """One sentence: which oracle has this relative loss on graphs of these distances, beside some others."""
    others = ", ".join(f"{oracle_loss(distances, cap):.3f} at {cap}" for cap in CAPS)
    cap = equivalent_cap(distances, loss)
    if cap is None:
        return f"{loss:.3f} is worse than predicting 0 for all, which gives 1. A model that generalises is near 0."
    return (
        f"{loss:.3f} is what predicting min(y, {cap:.1f}) gives on this test set: right up "
        f"to there, the same number beyond ({others}). A model that generalises is near 0."
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
