"""Agents of runs, loaded again."""

from dataclasses import replace

import pytest
import torch

from relational_transformer.runs import RunFolder
from relational_transformer.sokoban import load_agent, load_splits
from relational_transformer.sokoban.trained import levels_of_run
from tests.sokoban.small import CORRIDOR, ROOMS, open_trainer, small_config, write_levels


@pytest.mark.parametrize(
    ("precision", "kind"), [("bf16", torch.bfloat16), ("fp32", torch.float32), ("fp64", torch.float64)]
)
def test_an_agent_computes_with_the_parameters_that_were_tested(tmp_path, precision: str, kind: torch.dtype):
    levels = write_levels(tmp_path / "levels")
    with open_trainer(small_config(levels, seeds=(3, 5), precision=precision), tmp_path / "run", levels) as trainer:
        trainer.best_scores.fill_(0.5)
        trainer.save()
    agent = load_agent(tmp_path / "run", 5)
    for name, parameter in agent.named_parameters():
        assert torch.equal(parameter, trainer.fleet.parameters[name][1].to(kind))


def test_the_agent_of_a_failed_seed_is_refused(tmp_path):
    levels = write_levels(tmp_path / "levels")
    with open_trainer(small_config(levels, seeds=(3, 5)), tmp_path / "run", levels) as trainer:
        trainer.best_scores.fill_(0.5)
        trainer.task.steps.finite[0] = False
        trainer.save()
        for name, parameter in load_agent(tmp_path / "run").named_parameters():  # of the first that did not fail
            assert torch.equal(parameter, trainer.fleet.parameters[name][1])
        with pytest.raises(ValueError, match=r"seed 3 of the run in .* failed: there is no model"):
            load_agent(tmp_path / "run", 3)
        trainer.task.steps.finite[1] = False
        trainer.save()
    with pytest.raises(ValueError, match=r"all seeds of the run in .* failed"):
        load_agent(tmp_path / "run")


def test_a_run_of_fewer_test_levels_finds_them_again(tmp_path):
    levels = write_levels(tmp_path / "levels")
    identity = load_splits(levels, 1).identity
    config = replace(small_config(levels), levels=identity)  # test_levels stays at 1,000
    assert len(config.load("test", levels)) == 1
    with pytest.raises(ValueError, match="2 levels cannot be tested with test_levels=1"):
        replace(small_config(levels), test_levels=1)


def test_a_run_takes_its_own_levels_of_a_folder_that_has_more(tmp_path):
    levels = write_levels(tmp_path / "levels")
    config = replace(small_config(levels), levels=load_splits(levels, 1).identity)
    with open_trainer(config, tmp_path / "run", levels) as trainer:
        trainer.save()
    own = levels_of_run(RunFolder(tmp_path / "run"), elsewhere=levels)
    assert (len(own), own.digest) == (1, config.levels.test_digest)
    others = write_levels(tmp_path / "others", CORRIDOR + ROOMS)
    assert len(levels_of_run(RunFolder(tmp_path / "run"), elsewhere=others)) == 3
    assert len(levels_of_run(RunFolder(tmp_path / "run"), "train", levels)) == 2
