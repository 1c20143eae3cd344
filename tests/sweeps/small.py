"""Sweeps small enough for tests."""

import json
from dataclasses import replace
from pathlib import Path

import torch

from relational_transformer.sweeps import Run, execute, plan
from relational_transformer.sweeps.cells import Cell
from tests.training.small import PROTOCOL, SETTINGS, small_config


def small_cell(task: str = "bfs", seeds: tuple[int, ...] = (0, 1), parts: int = 4) -> Cell:
    """A cell whose runs validate, and may save themselves, `parts` times."""
    protocol = replace(PROTOCOL, examples=4 * parts, validation_interval=4)
    return Cell("clrs", small_config(task=task, seeds=seeds, protocol=protocol))


def impossible_cell() -> Cell:
    """A cell that no worker can train."""
    return Cell("clrs", small_config(settings=replace(SETTINGS, num_heads=3)))


def small_runs(root: Path, *cells: Cell, seeds_together: int = 20) -> list[Run]:
    return plan(root, cells, seeds_together)


def rows_of(run: Run) -> int:
    """Validations behind a run at its last checkpoint."""
    path = run.folder / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def scores_of(runs: list[Run]) -> dict[str, list]:
    """What the runs found out, seed by seed."""
    return {run.name: json.loads((run.folder / "result.json").read_text())["seeds"] for run in runs}


def scores_alone(root: Path, *cells: Cell) -> dict[str, list]:
    """The scores of the same cells, trained here without any engine."""
    runs = small_runs(root, *cells)
    for run in runs:
        execute(run, torch.device("cpu"))
    return scores_of(runs)
