"""`rt evaluate` of a lobster run: relative losses on graphs of any size."""

import statistics
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from relational_transformer.fleet.precision import find_device
from relational_transformer.lobster import evaluate_run
from relational_transformer.lobster.oracle import meaning
from relational_transformer.runs.run_folder import RunFolder


def evaluate_lobster(
    folder: RunFolder, device: str, nodes: int | None, examples: int | None, data_seed: int | None
) -> None:
    """Print the relative loss of every seed on graphs whose spine has `nodes` nodes."""
    changes = {"test_size": nodes, "evaluation_examples": examples, "test_data_seed": data_seed}
    given = {name: value for name, value in changes.items() if value is not None}
    scores = evaluate_run(folder, find_device(device), lambda protocol: replace(protocol, **given))
    config = scores.config
    size = given.get("test_size", config.protocol.test_size)
    table = Table(title=f"{config.model} on lobster graphs of size {size}")
    table.add_column("seed", justify="right")
    table.add_column("relative loss", justify="right")
    for seed, loss in zip(config.seeds, scores.losses, strict=True):
        table.add_row(str(seed), "failed" if loss is None else f"{loss:.4f}")
    good = [loss for loss in scores.losses if loss is not None]
    if len(good) > 1:
        table.add_row("mean", f"{statistics.mean(good):.4f}")
    console = Console()
    console.print(table)
    if good:
        console.print(meaning(statistics.mean(good), scores.distances), highlight=False)
