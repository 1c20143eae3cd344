"""Measured results: every `result.json` below a folder, combined by model and task."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.tasks import find_task, kind_of

from .estimate import Estimate

GALLERY = "gallery"
"""Folders of this name hold small models that were made to be looked at. They are compared with nothing."""


def unit_of(task: str) -> Callable[[float], float]:
    """The conversion of a score in a result or its metrics to the paper's unit."""
    return find_task(kind_of(task)).paper_unit


@dataclass(frozen=True)
class Run:
    """One `result.json`: its folder, and its entries besides scores."""

    folder: Path
    seeds: tuple[int, ...]
    parameters: int | None
    seconds: float | None
    hardware: str
    commit: str | None


@dataclass(frozen=True)
class Measured:
    """The test scores of one model on one task by seed, in the paper's unit, all with the same settings and protocol.

    >>> Measured("bfs", "rt", {}, scores={0: 98.0, 1: 99.0}, failed=(2,), runs=()).estimate.mean
    98.5
    """

    task: str
    model: str
    config: Mapping[str, Any]
    scores: Mapping[int, float]
    failed: tuple[int, ...]
    runs: tuple[Run, ...]
    levels: Mapping[str, Any] | None = None
    """Sokoban: the run's record of its levels."""
    rows: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """The rows of all seeds in the results, in their own units."""
    fused: bool | None = None
    """Whether this is the result with fused kernels, if the same seeds were trained with and without them; else
    None."""

    @property
    def estimate(self) -> Estimate | None:
        """Mean and deviation over the seeds that did not fail; None if all failed."""
        return Estimate.of(list(self.scores.values())) if self.scores else None

    @property
    def hardware(self) -> tuple[str, ...]:
        return tuple(sorted({run.hardware for run in self.runs}))


def read_results(folder: Path) -> list[Measured]:
    """All results below `folder`. Runs that differ only in their seeds are combined. A seed counts once, by a run in
    which it did not fail; contradicting scores are an error. If the same seeds were trained with and without fused
    kernels, these are two results. A seed without a test score has failed. Folders named `gallery` are left out.

    >>> read_results(Path("an/empty/folder"))
    []
    """
    together: dict[str, list[tuple[Path, dict[str, Any]]]] = defaultdict(list)
    paths = (path for path in folder.rglob("*") if path.name == "result.json")  # also broken links
    for path in sorted(path for path in paths if GALLERY not in path.relative_to(folder).parts):
        result = RunFolder(path.parent).read_result() or {}
        try:
            config = {key: value for key, value in result["config"].items() if key not in ("seeds", "compile")}
            _put_together(config, [(path.parent, result)])
            _ = config["settings"], config.get("protocol") or config["recipe"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is not a result ({type(error).__name__}: {error})") from None
        together[json.dumps([config, result.get("levels")], sort_keys=True)].append((path.parent, result))
    return [
        _put_together(json.loads(what)[0], runs, fused)
        for what, results in together.items()
        for fused, runs in _apart(results).items()
    ]


def _apart(results: list[tuple[Path, dict[str, Any]]]) -> dict[bool | None, list[tuple[Path, dict[str, Any]]]]:
    """Split results by fused kernels if the same seeds were trained with and without them."""
    modes: dict[bool | None, list[tuple[Path, dict[str, Any]]]] = {True: [], False: []}
    for path, result in results:
        modes[result.get("kernels") is True or bool(result.get("layers_are_kernels"))].append((path, result))
    with_kernels, without = (
        {row["seed"] for _, result in runs for row in result["seeds"]} for runs in (modes[True], modes[False])
    )
    return modes if with_kernels & without else {None: results}


def _put_together(
    config: dict[str, Any], results: list[tuple[Path, dict[str, Any]]], fused: bool | None = None
) -> Measured:
    rows: dict[int, dict[str, Any]] = {}
    found: dict[int, Path] = {}
    for folder, result in results:
        for row in result["seeds"]:
            seed, before = row["seed"], rows.get(row["seed"])
            if before is not None and _has_score(before):
                if _has_score(row) and row["test"] != before["test"]:
                    raise ValueError(f"{found[seed]} and {folder} have different scores of seed {seed}: remove one")
                continue
            rows[seed], found[seed] = row, folder
    unit = unit_of(config["task"])
    good = {seed: unit(row["test"]) for seed, row in sorted(rows.items()) if _has_score(row)}
    return Measured(
        task=config["task"],
        model=config["model"],
        config=config,
        scores=good,
        failed=tuple(seed for seed in sorted(rows) if seed not in good),
        runs=tuple(_run(folder, result) for folder, result in results),
        levels=results[0][1].get("levels"),
        rows=dict(sorted(rows.items())),
        fused=fused,
    )


def _has_score(row: dict[str, Any]) -> bool:
    return not row["failed"] and row["test"] is not None


def _run(folder: Path, result: dict[str, Any]) -> Run:
    return Run(
        folder=folder,
        seeds=tuple(row["seed"] for row in result["seeds"]),
        parameters=result.get("parameters"),
        seconds=result.get("seconds"),
        hardware=result["hardware"],
        commit=result.get("commit"),
    )
