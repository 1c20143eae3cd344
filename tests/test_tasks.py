"""Runs of every kind go through a sweep alike: as JSON, trained, and judged by their folders."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from relational_transformer.files import CACHE_VARIABLE
from relational_transformer.fleet.adam import Schedule
from relational_transformer.molecules import qm9
from relational_transformer.runs import Task, train, train_together
from relational_transformer.sweeps import Run, execute, plan
from relational_transformer.sweeps.cells import Cell
from relational_transformer.sweeps.planning import finished_runs
from relational_transformer.tasks import find_task
from tests.lobster.small import small_config as small_lobster
from tests.molecules.made_up import make_molecules, write_files
from tests.molecules.small import small_config as small_qm9
from tests.sokoban.small import small_config as small_sokoban
from tests.sokoban.small import write_levels
from tests.sweeps.small import small_cell

KINDS = ("clrs", "lobster", "sokoban", "qm9")


@pytest.fixture(autouse=True)
def _molecules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some made-up molecules in place of QM9's."""
    paths = write_files(tmp_path / "qm9pack", make_molecules(60))
    monkeypatch.setattr(qm9, "find_files", lambda: paths)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


def cell_of(kind: str, folder: Path) -> Cell:
    if kind == "clrs":
        return small_cell()
    if kind == "lobster":
        return Cell(kind, small_lobster())
    if kind == "qm9":
        return Cell(kind, small_qm9())
    levels = write_levels(folder)
    return Cell(kind, small_sokoban(levels), levels)


@pytest.mark.parametrize("kind", KINDS)
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


def test_runs_of_all_kinds_train_side_by_side_as_they_do_alone(tmp_path: Path):
    device = torch.device("cpu")
    cells = {kind: cell_of(kind, tmp_path / "levels") for kind in KINDS}

    def runs_in(folder: str) -> list[tuple[Task, Path]]:
        return [(find_task(kind)(cell.config, cell.data), tmp_path / folder / kind) for kind, cell in cells.items()]

    together = train_together(runs_in("together"), device, report_seconds=0.0, checkpoint_seconds=0.0)
    alone = [train(task, folder, device) for task, folder in runs_in("alone")]
    assert [result["seeds"] for result in together] == [result["seeds"] for result in alone]
    for kind in KINDS:
        metrics = ((tmp_path / folder / kind / "metrics.jsonl").read_text() for folder in ("together", "alone"))
        assert len(set(metrics)) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("schedule", [Schedule(warmup_steps=4), Schedule(2, "cosine"), Schedule(decay="linear")])
def test_every_task_trains_by_a_schedule_of_its_learning_rate(tmp_path: Path, kind: str, schedule: Schedule):
    cell, device = cell_of(kind, tmp_path / "levels"), torch.device("cpu")
    config = replace(cell.config, schedule=schedule)  # pyright: ignore[reportArgumentType]
    read = find_task(kind).config_type.from_dict(json.loads(json.dumps(config.as_dict())))
    assert (read, "schedule" in cell.config.as_dict()) == (config, False)
    plain, scheduled = (
        train(find_task(kind)(one, cell.data), tmp_path / name, device)
        for name, one in (("plain", cell.config), ("scheduled", config))
    )
    first, second = (
        json.loads((tmp_path / name / "metrics.jsonl").read_text().splitlines()[-1])["loss"]
        for name in ("plain", "scheduled")
    )
    assert first != second
    assert plain["config"] != scheduled["config"]


def test_an_unknown_kind_lists_the_known_ones():
    with pytest.raises(ValueError, match="there is no kind of runs 'chess'; the kinds are clrs, lobster, sokoban"):
        find_task("chess")
