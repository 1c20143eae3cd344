"""Checkpoints read again."""

import pytest
import torch

from relational_transformer.runs.checkpoint import load_trained, save_checkpoint
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.training import CLRSTask
from tests.training.small import small_config


def write_run(folder: RunFolder, finite: list[bool], **more: torch.Tensor) -> None:
    """A checkpoint of two seeds."""
    state = {"values.weight": torch.zeros(2, 3), "best.weight": torch.ones(2, 3), "finite": torch.tensor(finite)}
    with folder.opened(small_config().as_dict()):
        save_checkpoint(folder, {**state, "best_scores": torch.zeros(2), **more}, {"steps": 5})


def test_the_best_parameters_are_told_from_the_rest(tmp_path):
    folder = RunFolder(tmp_path)
    write_run(folder, [True, False])
    trained = load_trained(CLRSTask, folder)
    assert trained.best.keys() == {"weight"}
    assert torch.equal(trained.best["weight"], torch.ones(2, 3))
    assert trained.good == [True, False]


def test_a_seed_is_chosen_among_those_that_did_not_fail(tmp_path):
    folder = RunFolder(tmp_path)
    write_run(folder, [True, True], best_scores=torch.tensor([-torch.inf, 0.5]))
    trained = load_trained(CLRSTask, folder)
    assert trained.number_of(None) == trained.number_of(1) == 1
    with pytest.raises(ValueError, match=f"seed 0 of the run in {tmp_path} failed"):
        trained.number_of(0)
    with pytest.raises(ValueError, match=r"has the seeds \[0, 1\], not 7"):
        trained.number_of(7)


def test_a_folder_without_a_checkpoint_is_named(tmp_path):
    folder = RunFolder(tmp_path)
    with folder.opened(small_config().as_dict()):
        pass
    with pytest.raises(ValueError, match=f"{tmp_path} has no checkpoint that can be read"):
        load_trained(CLRSTask, folder)
