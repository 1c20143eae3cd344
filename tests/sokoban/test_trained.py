"""Agents of runs, loaded again."""

import pytest
import torch

from relational_transformer.sokoban import load_agent
from tests.sokoban.small import open_trainer, small_config, write_levels


@pytest.mark.parametrize(
    ("precision", "kind"), [("bf16", torch.bfloat16), ("fp32", torch.float32), ("fp64", torch.float64)]
)
def test_an_agent_computes_with_the_parameters_that_were_tested(tmp_path, precision: str, kind: torch.dtype):
    levels = write_levels(tmp_path / "levels")
    with open_trainer(small_config(levels, seeds=(3, 5), precision=precision), tmp_path / "run", levels) as trainer:
        trainer.save()
    agent = load_agent(tmp_path / "run", 5)
    for name, parameter in agent.named_parameters():
        assert torch.equal(parameter, trainer.fleet.parameters[name][1].to(kind))
