"""Checkpoints read again."""

import pytest
import torch

from relational_transformer.runs.checkpoint import read_best, save_checkpoint
from relational_transformer.runs.run_folder import RunFolder


def test_the_best_parameters_are_told_from_the_rest(tmp_path):
    folder = RunFolder(tmp_path)
    state = {"values.weight": torch.zeros(2, 3), "best.weight": torch.ones(2, 3), "finite": torch.tensor([True, False])}
    save_checkpoint(folder, state, {"steps": 5})
    best, others = read_best(folder)
    assert best.keys() == {"weight"}
    assert torch.equal(best["weight"], torch.ones(2, 3))
    assert others.keys() == {"values.weight", "finite"}


def test_a_folder_without_a_checkpoint_is_named(tmp_path):
    with pytest.raises(ValueError, match=f"{tmp_path} has no checkpoint that can be read"):
        read_best(RunFolder(tmp_path))
