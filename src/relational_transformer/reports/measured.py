"""Measured results: every `result.json` below a folder, the seeds of one model on one task put together."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .estimate import Estimate

UNITS: dict[str, Callable[[float], float]] = {
    "lobster": lambda relative_loss: relative_loss,
    "sokoban": lambda solved: 100 * (1 - solved),
}
"""From the test score in a result to the number that the paper prints; of a CLRS-30 task it is the score in percent."""


def unit_of(task: str) -> Callable[[float], float]:
    """From a score in a result or its metrics to the paper's unit."""
    return UNITS.get(task, lambda score: 100 * score)


@dataclass(frozen=True)
class Run:
    """One `result.json`: where it lies, and what it says besides scores."""

    folder: Path
    seeds: tuple[int, ...]
    parameters: int | None
    seconds: float | None
    hardware: str
    commit: str | None


@dataclass(frozen=True)
class Measured:
    """Test scores of one model on one task by seed, in the paper's unit; all under the same settings and protocol.

    >>> Measured("bfs", "rt", {}, scores={0: 98.0, 1: 99.0}, failed=(2,), runs=()).estimate.mean
    98.5
    """

    task: str
    model: str
    config: Mapping[str, Any]
    scores: Mapping[int, float]
    failed: tuple[int, ...]
    runs: tuple[Run, ...]

    @property
    def estimate(self) -> Estimate | None:
        """Mean and spread over the seeds that did not fail; None where all did."""
        return Estimate.of(list(self.scores.values())) if self.scores else None

    @property
    def hardware(self) -> tuple[str, ...]:
        return tuple(sorted({run.hardware for run in self.runs}))


def read_results(folder: Path) -> list[Measured]:
    """All results below `folder`. Runs that differ in nothing but their seeds are one; a seed counts once.

    >>> read_results(Path("an/empty/folder"))
    []
    """
    together: dict[str, list[tuple[Path, dict[str, Any]]]] = defaultdict(list)
    for path in sorted(folder.rglob("result.json")):
        try:
            result = json.loads(path.read_text())
            config = {key: value for key, value in result["config"].items() if key not in ("seeds", "compile")}
            _put_together(config, [(path.parent, result)])
            _ = config["settings"], config.get("protocol") or config["recipe"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is no result ({type(error).__name__}: {error})") from None
        together[json.dumps(config, sort_keys=True)].append((path.parent, result))
    return [_put_together(json.loads(config), results) for config, results in together.items()]


def _put_together(config: dict[str, Any], results: list[tuple[Path, dict[str, Any]]]) -> Measured:
    rows = {row["seed"]: row for _, result in results for row in result["seeds"]}
    unit = unit_of(config["task"])
    return Measured(
        task=config["task"],
        model=config["model"],
        config=config,
        scores={seed: unit(row["test"]) for seed, row in sorted(rows.items()) if not row["failed"]},
        failed=tuple(seed for seed, row in sorted(rows.items()) if row["failed"]),
        runs=tuple(_run(folder, result) for folder, result in results),
    )


def _run(folder: Path, result: dict[str, Any]) -> Run:
    return Run(
        folder=folder,
        seeds=tuple(row["seed"] for row in result["seeds"]),
        parameters=result.get("parameters"),
        seconds=result.get("seconds"),
        hardware=result["hardware"],
        commit=result.get("commit"),
    )
