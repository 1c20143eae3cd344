"""`rt evaluate`: score a trained run again, on graphs of any size."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from relational_transformer.fleet.precision import default_device, find_device
from relational_transformer.runs import RunFolder
from relational_transformer.training.task import evaluate_run

from .evaluate_lobster import evaluate_lobster


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
    task = folder.read_config().get("task")
    if task == "sokoban":
        raise ValueError(f"this is a run on Sokoban: rt evaluate sokoban {arguments.run}")
    if task == "lobster":
        evaluate_lobster(folder, arguments.device, arguments.nodes, arguments.examples, arguments.data_seed)
        return
    changes = {
        "test_nodes": arguments.nodes,
        "evaluation_examples": arguments.examples,
        "test_data_seed": arguments.data_seed,
    }
    given = {name: value for name, value in changes.items() if value is not None}
    config, scores = evaluate_run(folder, find_device(arguments.device), lambda protocol: replace(protocol, **given))
    table = Table(title=f"{config.model} on {config.task}, {given.get('test_nodes', config.protocol.test_nodes)} nodes")
    table.add_column("seed", justify="right")
    table.add_column("score", justify="right")
    for seed, score in zip(config.seeds, scores, strict=True):
        table.add_row(str(seed), "failed" if score is None else f"{100 * score:.2f}%")
    good = [score for score in scores if score is not None]
    if len(good) > 1:
        table.add_row("mean", f"{100 * sum(good) / len(good):.2f}%")
    Console().print(table)
