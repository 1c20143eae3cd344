"""Curves for TensorBoard: every row once, while a run trains and after it was interrupted."""

import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from relational_transformer.runs import RunFolder
from relational_transformer.runs.curves import TensorBoardCurves

ROWS = [
    {"examples": 12, "loss": [2.0, 4.0], "validation": [0.25, 0.5]},
    {"examples": 24, "loss": [1.0, None], "validation": [0.5, None]},
    {"examples": 36, "loss": [0.5, None], "validation": [0.75, None]},
]


def curve(folder: Path, seed: int, name: str) -> list[tuple[int, float]]:
    found = EventAccumulator(str(folder / "tensorboard" / f"seed-{seed}"))
    found.Reload()
    return [(event.step, event.value) for event in found.Scalars(name)]


def test_every_seed_has_its_curves_and_one_that_failed_ends(tmp_path):
    curves = TensorBoardCurves(RunFolder(tmp_path), seeds=(3, 5))
    for number in (1, 1, 3):  # so many rows were there when somebody looked
        curves.update(ROWS[:number])
    curves.close()
    assert curve(tmp_path, 3, "loss") == [(12, 2.0), (24, 1.0), (36, 0.5)]
    assert curve(tmp_path, 3, "validation") == [(12, 0.25), (24, 0.5), (36, 0.75)]
    assert curve(tmp_path, 5, "loss") == [(12, 4.0)]


def test_a_run_that_goes_on_has_no_row_twice(tmp_path):
    first = TensorBoardCurves(RunFolder(tmp_path), seeds=(0, 1))
    first.update([*ROWS[:2], {**ROWS[2], "loss": [9.0, None]}])  # killed after it, and before its next checkpoint
    first.close()
    again = TensorBoardCurves(RunFolder(tmp_path), seeds=(0, 1))
    again.update(ROWS)
    again.close()
    assert curve(tmp_path, 0, "loss") == [(12, 2.0), (24, 1.0), (36, 0.5)]


def test_nothing_is_written_before_there_is_something_to_write(tmp_path):
    TensorBoardCurves(RunFolder(tmp_path / "run"), seeds=(0,)).close()
    assert not (tmp_path / "run").exists()


def test_where_it_is_not_installed_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ModuleNotFoundError, match=r"curves need TensorBoard: pip install '\.\[tensorboard\]'"):
        TensorBoardCurves(RunFolder(tmp_path), seeds=(0,))
