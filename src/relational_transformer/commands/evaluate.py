"""`rt evaluate`: score a trained run again, on graphs of any size."""

import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from relational_transformer.fleet.precision import default_device, find_device
from relational_transformer.runs import RunFolder
from relational_transformer.runs.task import Evaluation
from relational_transformer.tasks import find_task, kind_of


@dataclass(frozen=True)
class EvaluateArguments:
    """Score the best parameters of every seed of a run on its test set, or on graphs of another size."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of a run."""
    nodes: int | None = None
    """Nodes of the graphs (of a lobster run: of their spines); by default those of the run's protocol."""
    examples: int | None = None
    """Number of graphs (times the algorithm's multiplier); by default that of the run's protocol."""
    data_seed: int | None = None
    """Seed of the graphs; by default that of the canonical test set, 3."""
    device: str = field(default_factory=default_device)


def run(arguments: EvaluateArguments) -> None:
    folder = RunFolder(arguments.run)
    kind = find_task(kind_of(str(folder.read_config().get("task"))))
    device = find_device(arguments.device)
    show(kind.evaluate(folder, device, arguments.nodes, arguments.examples, arguments.data_seed))


def show(found: Evaluation) -> None:
    """Print the score of every seed."""
    table = Table(title=found.title)
    table.add_column("seed", justify="right")
    table.add_column(found.measure, justify="right")
    for seed, score in found.scores.items():
        table.add_row(str(seed), "failed" if score is None else found.shown(score))
    good = [score for score in found.scores.values() if score is not None]
    if len(good) > 1:
        table.add_row("mean", found.shown(statistics.mean(good)))
    Console().print(table)
    if found.note:
        Console().print(found.note, highlight=False)
