"""Measured results: every `result.json` below a folder, the seeds of one model on one task put together."""

import json
import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Measured:
    """Test scores of one model on one task, in percent, by seed; all under the same settings and protocol."""

    task: str
    model: str
    config: Mapping[str, Any]
    scores: Mapping[int, float]
    failed: tuple[int, ...]
    hardware: tuple[str, ...]

    @property
    def mean(self) -> float:
        return statistics.mean(self.scores.values())

    @property
    def deviation(self) -> float | None:
        return statistics.stdev(self.scores.values()) if len(self.scores) > 1 else None


def read_results(folder: Path) -> list[Measured]:
    """All results below `folder`. Runs that differ in nothing but their seeds are one; a seed counts once."""
    runs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(folder.rglob("result.json")):
        try:
            result = json.loads(path.read_text())
            config = {key: value for key, value in result["config"].items() if key not in ("seeds", "compile")}
            _together(config, [result])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is no result ({type(error).__name__}: {error})") from None
        runs[json.dumps(config, sort_keys=True)].append(result)
    return [_together(json.loads(config), results) for config, results in runs.items()]


def _together(config: dict[str, Any], results: list[dict[str, Any]]) -> Measured:
    rows = {row["seed"]: row for result in results for row in result["seeds"]}
    return Measured(
        task=config["task"],
        model=config["model"],
        config=config,
        scores={seed: 100 * row["test"] for seed, row in sorted(rows.items()) if not row["failed"]},
        failed=tuple(seed for seed, row in sorted(rows.items()) if row["failed"]),
        hardware=tuple(sorted({result["hardware"] for result in results})),
    )
