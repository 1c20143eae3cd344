"""Tiny runs of every experiment give the numbers that they gave when they were recorded, in float64 on a CPU.

Recorded with `python -m tests.test_recorded_runs`. Scores that are shares of right answers are equal to the
last bit everywhere. Losses may differ in their last digits with the processor and its BLAS, hence `RELATIVE`.
"""

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from relational_transformer.files import CACHE_VARIABLE
from relational_transformer.molecules import qm9
from tests.lobster import small as lobster
from tests.molecules import small as molecules
from tests.molecules.made_up import make_molecules, write_files
from tests.sokoban import small as sokoban
from tests.training import small as clrs
from tests.training.test_modern import modern_config

RECORDED = Path(__file__).with_name("recorded_runs.json")
RELATIVE = 1e-9


def clrs_run(task: str, folder: Path) -> dict[str, Any]:
    return clrs.run_to_the_end(clrs.small_config(task=task, precision="fp64"), folder)[1]


def modern_run(task: str, folder: Path) -> dict[str, Any]:
    return clrs.run_to_the_end(modern_config(task, precision="fp64"), folder)[1]


def lobster_run(model: Any, folder: Path) -> dict[str, Any]:
    return lobster.run_to_the_end(lobster.small_config(model, precision="fp64"), folder)[1]


def sokoban_run(model: str, folder: Path) -> dict[str, Any]:
    levels = sokoban.write_levels(folder / "levels")
    config = sokoban.small_config(levels, model=model, seeds=(0, 1), precision="fp64")
    return sokoban.run_to_the_end(config, folder / "run", levels)[1]


def qm9_run(task: str, folder: Path) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        paths = write_files(folder / "qm9pack", make_molecules(60))
        patch.setattr(qm9, "find_files", lambda: paths)
        patch.setenv(CACHE_VARIABLE, str(folder / "cache"))
        return molecules.train_run(molecules.small_config(task, precision="fp64"), folder / "run")


RUNS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "rt on bfs": lambda folder: clrs_run("bfs", folder),
    "rt on floyd_warshall": lambda folder: clrs_run("floyd_warshall", folder),  # which has pointers of edges
    "rt on bfs, modern": lambda folder: modern_run("bfs", folder),
    "rt on insertion_sort, modern": lambda folder: modern_run("insertion_sort", folder),
    "rt on lobster": lambda folder: lobster_run("rt", folder),
    "gat on lobster": lambda folder: lobster_run("gat", folder),
    "rt on sokoban": lambda folder: sokoban_run("rt", folder),
    "transformer on sokoban": lambda folder: sokoban_run("transformer", folder),
    "rt on qm9_gap": lambda folder: qm9_run("qm9_gap", folder),
}


def outcome_of(name: str, folder: Path) -> dict[str, Any]:
    """The scores of every seed, and the metrics, which hold every loss."""
    seeds = RUNS[name](folder)["seeds"]
    (metrics,) = folder.rglob("metrics.jsonl")
    return {"seeds": seeds, "metrics": [json.loads(line) for line in metrics.read_text().splitlines()]}


def assert_same(found: Any, recorded: Any) -> None:
    if isinstance(recorded, dict):
        assert found.keys() == recorded.keys()
        for key, value in recorded.items():
            assert_same(found[key], value)
    elif isinstance(recorded, list):
        assert len(found) == len(recorded)
        for one, other in zip(found, recorded, strict=True):
            assert_same(one, other)
    elif isinstance(recorded, float):
        assert found == pytest.approx(recorded, rel=RELATIVE, abs=0)
    else:
        assert found == recorded


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_the_numbers_that_were_recorded(tmp_path: Path, name: str):
    assert_same(outcome_of(name, tmp_path), json.loads(RECORDED.read_text())[name])


def record() -> None:
    outcomes = {}
    for name in RUNS:
        with TemporaryDirectory() as folder:
            outcomes[name] = outcome_of(name, Path(folder))
    RECORDED.write_text(json.dumps(outcomes, indent=1) + "\n")


if __name__ == "__main__":
    record()
