"""From cells to folders: nothing is trained twice, whatever was asked for before."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from relational_transformer.sweeps import Selection, cells_of, execute, find_experiment, plan
from relational_transformer.sweeps.cells import Cell
from relational_transformer.sweeps.planning import finished_runs
from tests.sweeps.small import small_cell


def seeds_of(runs) -> list[tuple[int, ...]]:
    return [run.config.seeds for run in runs]


def begin(run) -> None:
    """Leave a run as if it had been killed after its first checkpoint."""
    run.folder.mkdir(parents=True)
    (run.folder / "config.json").write_text(json.dumps(run.config.as_dict()))
    (run.folder / "checkpoint.safetensors").write_text("")


def test_seeds_are_trained_so_many_at_a_time(tmp_path: Path):
    runs = plan(tmp_path, [small_cell(seeds=tuple(range(5)))], seeds_together=2)
    assert seeds_of(runs) == [(0, 1), (2, 3), (4,)]
    assert [run.folder.name for run in runs] == ["seeds-0-to-1", "seeds-2-to-3", "seed-4"]


def test_two_experiments_share_the_folder_of_the_same_run(tmp_path: Path):
    selection = Selection(tasks=("bellman_ford",), models=("rt",), seeds=2)
    (one,) = plan(tmp_path, cells_of(find_experiment("main"), selection), 20)
    (other,) = plan(tmp_path, cells_of(find_experiment("edge_updates"), selection), 20)
    assert one == other
    assert plan(tmp_path, [*cells_of(find_experiment("main"), selection)] * 2, 20) == [one]


def test_whatever_changes_the_numbers_changes_the_folder(tmp_path: Path):
    kind, config, _ = small_cell()
    (run,) = plan(tmp_path, [Cell(kind, config)], 20)
    for changes in (
        {"precision": "bf16"},
        {"protocol": replace(config.protocol, examples=99)},
        {"settings": replace(config.settings, learning_rate=0.1)},
    ):
        (other,) = plan(tmp_path, [Cell(kind, replace(config, **changes))], 20)
        assert other.folder != run.folder


def test_more_seeds_later_are_runs_of_their_own(tmp_path: Path):
    (first,) = plan(tmp_path, [small_cell(seeds=(0, 1))], 20)
    execute(first, torch.device("cpu"))
    runs = plan(tmp_path, [small_cell(seeds=(0, 1, 2, 3))], 20)
    assert seeds_of(runs) == [(0, 1), (2, 3)]
    assert runs[0] == first


def test_a_fleet_that_was_begun_goes_on_as_it_is(tmp_path: Path):
    (run,) = plan(tmp_path, [small_cell(seeds=(0, 1, 2, 3))], 20)
    begin(run)
    assert plan(tmp_path, [small_cell(seeds=(0, 1))], 1) == [run]


def test_a_fleet_that_has_saved_nothing_may_be_cut_anew(tmp_path: Path):
    (run,) = plan(tmp_path, [small_cell(seeds=(0, 1))], 20)
    begin(run)
    (run.folder / "checkpoint.safetensors").unlink()
    assert seeds_of(plan(tmp_path, [small_cell(seeds=(0, 1))], 1)) == [(0,), (1,)]


def test_gaps_between_seeds_are_filled(tmp_path: Path):
    (run,) = plan(tmp_path, [small_cell(seeds=(2,))], 20)
    begin(run)
    assert seeds_of(plan(tmp_path, [small_cell(seeds=tuple(range(5)))], 20)) == [(0, 1), (2,), (3, 4)]


@pytest.mark.parametrize(
    ("content", "flaw"),
    [
        ("{}", "model is missing"),
        ("[]", "it is a list, not an object"),
        (json.dumps({**small_cell().config.as_dict(), "seeds": 3}), "seeds is an integer, not a list"),
        (json.dumps({**small_cell().config.as_dict(), "seeds": [0, "1"]}), r"seeds\[1\] is a string, not an integer"),
    ],
)
def test_a_run_whose_configuration_is_none_is_named(tmp_path: Path, content: str, flaw: str):
    (run,) = plan(tmp_path, [small_cell()], 20)
    begin(run)
    (run.folder / "config.json").write_text(content)
    with pytest.raises(ValueError, match=rf"config\.json is not .*{flaw}.*; delete the folder"):
        plan(tmp_path, [small_cell()], 20)


@pytest.mark.parametrize("content", ["{}", "[]", "{", '{"task": "bfs"}', '{"task": "lobster", "model": "rt"}'])
def test_what_cannot_be_read_elsewhere_is_named_and_skipped(tmp_path: Path, caplog, content: str):
    (run,) = plan(tmp_path, [small_cell(seeds=(0,))], 20)
    execute(run, torch.device("cpu"))
    stranger = tmp_path / "some" / "old" / "digest" / "seed-0"
    stranger.mkdir(parents=True)
    (stranger / "config.json").write_text(content)
    assert finished_runs(tmp_path) == [run]
    assert f"{stranger / 'config.json'} is skipped: " in caplog.text


def test_no_seed_at_a_time_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="seeds-together must be at least 1, got 0"):
        plan(tmp_path, [small_cell()], 0)
