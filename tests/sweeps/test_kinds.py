"""Runs of every kind go through a sweep alike: as JSON, trained, and judged by their folders."""

import json
from pathlib import Path

import pytest
import torch

from relational_transformer.sweeps import Run, execute, plan
from relational_transformer.sweeps.cells import Cell
from relational_transformer.sweeps.kinds import find_kind
from relational_transformer.sweeps.planning import finished_runs
from tests.lobster.small import small_config as small_lobster
from tests.sokoban.small import small_config as small_sokoban
from tests.sokoban.small import write_levels
from tests.sweeps.small import small_cell


def cell_of(kind: str, folder: Path) -> Cell:
    if kind == "clrs":
        return small_cell()
    if kind == "lobster":
        return Cell(kind, small_lobster())
    levels = write_levels(folder)
    return Cell(kind, small_sokoban(levels), levels)


@pytest.mark.parametrize("kind", ["clrs", "lobster", "sokoban"])
def test_a_run_of_every_kind_is_trained_and_known_to_be_done(kind: str, tmp_path: Path):
    cell = cell_of(kind, tmp_path / "levels")
    (run,) = plan(tmp_path / "runs", [cell], seeds_together=20)
    sent = Run.from_dict(json.loads(json.dumps(run.as_dict())))
    assert (sent, sent.data) == (run, cell.data)
    assert (run.is_done, run.share_done) == (False, 0.0)
    result = execute(sent, torch.device("cpu"))
    assert [row["seed"] for row in result["seeds"]] == list(cell.config.seeds)
    assert (run.is_done, run.share_done) == (True, 1.0)
    (run.folder / "result.json").unlink()
    assert run.is_begun
    assert run.share_done == pytest.approx(1.0, abs=0.2), "metrics.jsonl does not say how far the run is"
    assert run.flop > 0
    execute(run, torch.device("cpu"))
    assert finished_runs(tmp_path / "runs") == [run]
    assert plan(tmp_path / "runs", [cell], seeds_together=1) == [run]


def test_an_unknown_kind_lists_the_known_ones():
    with pytest.raises(ValueError, match="no run is of the kind 'chess'; there are clrs, lobster, sokoban"):
        find_kind("chess")
