"""Turns the cells of a table into runs in folders, and finds existing runs by their configuration.

The folder of a run is ROOT/TASK/MODEL/DIGEST/SEEDS. The digest is that of its configuration without the seeds. So two
experiments with the same configuration share folders, and no seed is trained twice.
"""

import hashlib
import json
import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from relational_transformer.bounds import MOST_SEEDS, check_bound
from relational_transformer.runs.config import RunConfig
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.tasks import find_task, kind_of

from .cells import Cell
from .run import Run, name_seeds

log = logging.getLogger(__name__)


def plan(root: Path, cells: Iterable[Cell], seeds_together: int) -> list[Run]:
    """The runs that have all seeds of all cells: finished ones, ones to resume, and new ones.

    A fleet that was begun is resumed with the seeds it has. New fleets have `seeds_together` seeds.

    >>> from relational_transformer.sweeps import EXPERIMENTS, Selection, cells_of
    >>> cells = cells_of(EXPERIMENTS["main"], Selection(tasks=("bfs",), models=("rt",)))
    >>> [run.name for run in plan(Path("runs/nowhere"), cells, seeds_together=10)]
    ['rt on bfs, seeds 0 to 9', 'rt on bfs, seeds 10 to 19']
    """
    check_bound("seeds_together", seeds_together, 1, MOST_SEEDS)
    runs: dict[Path, Run] = {}
    for cell in cells:
        runs |= {run.folder: run for run in _runs_of(root, cell, seeds_together)}
    return list(runs.values())


def _runs_of(root: Path, cell: Cell, seeds_together: int) -> list[Run]:
    group = group_folder(root, cell.config)
    missing = set(cell.config.seeds)
    runs = []
    for run in sorted(_known_runs(group, cell), key=lambda run: not run.is_done):
        if missing & set(run.config.seeds):
            runs.append(run)
            missing -= set(run.config.seeds)
    for seeds in _fleets(sorted(missing), seeds_together):
        config = _with_seeds(cell.config, seeds)
        runs.append(Run(cell.kind, config, group / name_seeds(seeds).replace(" ", "-"), cell.data))
    return sorted(runs, key=lambda run: run.config.seeds)


def group_folder(root: Path, config: RunConfig) -> Path:
    """The folder of all runs that differ from `config` in nothing but their seeds."""
    content = {key: value for key, value in config.as_dict().items() if key != "seeds"}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]
    return root / config.task / config.model / digest


def finished_runs(root: Path) -> list[Run]:
    """All finished runs below a folder, of any experiment. Runs that cannot be read are skipped with a warning."""
    runs = []
    for path in sorted(root.glob("*/*/*/seed*/config.json")):
        try:
            folder = RunFolder(path.parent)
            kind = kind_of(folder.read_config().get("task", ""))
            runs.append(Run(kind, folder.read_config(find_task(kind).config_type.from_dict), path.parent))
        except (ValueError, OSError) as error:
            log.warning("%s is skipped: %s", path, error)
    return [run for run in runs if run.is_done]


def _known_runs(group: Path, cell: Cell) -> list[Run]:
    """Runs with a result or a checkpoint."""
    runs = []
    for path in sorted(group.glob("seed*/config.json")):
        found = RunFolder(path.parent).read_config(find_task(cell.kind).config_type.from_dict)
        runs.append(Run(cell.kind, _with_seeds(cell.config, found.seeds), path.parent, cell.data))
    return [run for run in runs if run.is_done or run.is_begun]


def _fleets(seeds: list[int], size: int) -> list[tuple[int, ...]]:
    """Consecutive seeds, at most `size` together.

    >>> _fleets([0, 1, 2, 5, 6], 2)
    [(0, 1), (2,), (5, 6)]
    """
    fleets: list[tuple[int, ...]] = []
    for seed in seeds:
        if fleets and fleets[-1][-1] == seed - 1 and len(fleets[-1]) < size:
            fleets[-1] = (*fleets[-1], seed)
        else:
            fleets.append((seed,))
    return fleets


def _with_seeds(config: Any, seeds: tuple[int, ...]) -> RunConfig:
    return replace(config, seeds=seeds)
