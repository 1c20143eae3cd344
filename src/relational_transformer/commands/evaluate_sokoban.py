"""`rt evaluate sokoban`: test the agents of a run again, on its test levels or on others."""

import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from relational_transformer.fleet.precision import default_device, find_device
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.sokoban import SokobanConfig
from relational_transformer.sokoban.trained import evaluate_run, levels_of_run


@dataclass(frozen=True)
class EvaluateSokobanArguments:
    """Let the best agent of every seed of a run play every test level twice: with sampled actions and with the most
    probable ones (greedy). Print the share of levels that it solves within 120 steps."""

    run: Annotated[Path, tyro.conf.Positional]
    """The folder of a run."""
    levels: Path | None = None
    """A Boxoban folder with other levels; by default the run's own."""
    split: str = "test"
    """The levels: train, valid or test."""
    device: str = field(default_factory=default_device)
    """cuda, cuda:1 or cpu; by default a CUDA device if there is one."""


def run(arguments: EvaluateSokobanArguments) -> None:
    folder = RunFolder(arguments.run)
    config = folder.read_config(SokobanConfig.from_dict)
    levels = levels_of_run(folder, arguments.split, arguments.levels)
    shares = evaluate_run(folder, find_device(arguments.device), levels)
    table = Table(title=f"{config.model} on sokoban, {len(levels):,} levels")
    for column in ("seed", "solved, sampled", "solved, greedy"):
        table.add_column(column, justify="right")
    for seed, share in shares.items():
        table.add_row(str(seed), *(("failed", "failed") if share is None else (f"{100 * one:.1f}%" for one in share)))
    good = [share for share in shares.values() if share is not None]
    if len(good) > 1:
        table.add_row("mean", *(f"{100 * statistics.mean(column):.1f}%" for column in zip(*good, strict=True)))
    Console().print(table)
