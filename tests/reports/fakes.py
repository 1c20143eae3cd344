"""Results that nobody measured, for tests alone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from relational_transformer.processors.settings import find_settings
from relational_transformer.reports.paper import numbers, published
from relational_transformer.training import Protocol, TrainConfig

PROVENANCE = {"hardware": "a machine", "commit": "0123456789abcdef", "parameters": 1_103_404, "seconds": 100.0}


def write_result(
    folder: Path,
    task: str,
    scores: Mapping[int, float | None] | Sequence[float | None],
    model: str = "rt",
    settings: Mapping[str, object] | None = None,
    precision: str = "fp32",
    curves: bool = False,
    **protocol,
) -> Path:
    """A folder with the result of one run; scores by seed, in 0..1, None for a seed that failed."""
    by_seed = dict(scores) if isinstance(scores, Mapping) else dict(enumerate(scores))
    chosen = replace(find_settings(model), **(settings or {}))
    config = TrainConfig(task, model, chosen, Protocol(**protocol), tuple(by_seed), precision)  # pyright: ignore
    rows = [{"seed": seed, "test": score, "failed": score is None} for seed, score in by_seed.items()]
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"config": asdict(config), "seeds": rows, **PROVENANCE}))
    if curves:
        _write_curves(folder / "metrics.jsonl", [row["test"] for row in rows], config.protocol.examples)
    return folder


def write_paper_again(root: Path, models: Sequence[str], tasks: Sequence[str], seeds: int = 5, **rest) -> None:
    """Results drawn around the paper's means with the paper's deviations."""
    for model in models:
        for task in tasks:
            paper = published(task, model)
            assert paper is not None
            generator = np.random.default_rng(sum(map(ord, task + model)))
            scores = generator.normal(paper.mean, paper.deviation, seeds).clip(0, 100) / 100
            write_result(root / f"{task}-{model}", task, scores.tolist(), model, **rest)


def all_tasks() -> tuple[str, ...]:
    """The thirty tasks in the paper's order."""
    return tuple(numbers()["main"]["mean"])


def _write_curves(path: Path, scores: list[float | None], examples: int) -> None:
    generator = np.random.default_rng(0)
    lines = []
    for part in range(1, 101):
        reached = 1 - np.exp(-part / 15)
        noise = generator.normal(0, 0.02, len(scores))
        validation = [
            None if score is None else float(np.clip(score * reached + noise[k], 0, 1))
            for k, score in enumerate(scores)
        ]
        losses = [None if score is None else float(2 * np.exp(-part / 20)) for score in scores]
        lines.append(json.dumps({"examples": examples * part // 100, "loss": losses, "validation": validation}))
    path.write_text("\n".join(lines) + "\n")
