"""A run whose every seed has failed ends at once, in each of the three experiments."""

from pathlib import Path

import pytest
import torch

from relational_transformer.cli import DIVERGED, main
from relational_transformer.fleet.fleet import initialise
from relational_transformer.lobster import LobsterTask
from relational_transformer.runs import RunFolder, train
from relational_transformer.sokoban import SokobanTask
from relational_transformer.training import CLRSTask
from tests.lobster.small import small_config as small_lobster
from tests.sokoban.small import small_config as small_sokoban
from tests.sokoban.small import write_levels
from tests.training.small import small_config

CPU = torch.device("cpu")


def begin_with_nan(build, seed: int):
    model = initialise(build, seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
    return model


@pytest.mark.parametrize("task", ["clrs", "lobster", "sokoban"])
def test_a_run_whose_every_seed_has_failed_ends_with_its_first_part_and_without_a_test(
    tmp_path: Path, monkeypatch, task: str
):
    folder = RunFolder(tmp_path / "run")
    monkeypatch.setattr("relational_transformer.runs.trainer.initialise", begin_with_nan)
    if task == "clrs":
        result = train(CLRSTask(small_config()), folder.path, CPU)
    elif task == "lobster":
        result = train(LobsterTask(small_lobster()), folder.path, CPU)
    else:
        levels = write_levels(tmp_path / "levels")
        config = small_sokoban(levels, seeds=(0, 1))
        result = train(SokobanTask(config, levels), folder.path, CPU)
    assert [(row["failed"], row["test"]) for row in result["seeds"]] == [(True, None), (True, None)]
    assert len(folder.read_metrics()) <= 1


def test_rt_train_says_so_and_has_a_status_of_its_own_also_when_the_run_is_shown_again(
    tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.setattr("relational_transformer.runs.trainer.initialise", begin_with_nan)
    words = "train bfs --protocol quick --seeds 2 --hidden-size 8 --num-heads 2 --num-layers 1 --train-examples 20"
    more = "--examples 8 --validation-interval 4 --test-nodes 7 --device cpu"
    arguments = [*words.split(), *more.split(), "--out"]
    for _ in range(2):
        assert main([*arguments, str(tmp_path)]) == DIVERGED
        printed, said = capsys.readouterr()
        assert said.splitlines()[-1].startswith(f"rt: every seed of {tmp_path} has failed: its loss was not finite")
        assert "failed" in printed
