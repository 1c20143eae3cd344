"""`rt evaluate`: test a trained run again, on graphs of any size."""

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
    """Test the best parameters of every seed of a run on its test set, or on graphs of another size, number or seed."""

    run: Annotated[Path, tyro.conf.Positional]
    """The folder of a run."""
    nodes: int | None = None
    """The number of nodes of a graph (lobster: of its spine); by default that of the run's protocol."""
    examples: int | None = None
    """The number of graphs, times the algorithm's multiplier; by default that of the run's protocol."""
    data_seed: int | None = None
    """The seed of the graphs; by default 3, that of the canonical test set."""
    device: str = field(default_factory=default_device)
    """cuda, cuda:1 or cpu; by default a CUDA device if there is one."""


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
