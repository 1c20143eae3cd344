"""Runs of models with optional parts: the promises of every other run."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from relational_transformer.analysis.hint_scores import evaluate_hints
from relational_transformer.processors.settings import find_settings
from relational_transformer.reasoning.build import build_network
from relational_transformer.runs import RunFolder
from relational_transformer.training import CLRSTask, TrainConfig, fresh
from relational_transformer.training.fused_step import can_fuse
from tests.training.small import make_trainer, run_to_the_end, small_config
from tests.training.test_modern import CLIPPED, MODERN

CPU = torch.device("cpu")
OPTIONS: list[dict[str, Any]] = [{"edge_pointers": "bound"}]
every_option = pytest.mark.parametrize("option", OPTIONS, ids=lambda option: "-".join(map(str, option.values())))


@pytest.fixture(autouse=True)
def _few_probes(monkeypatch):
    monkeypatch.setattr(fresh, "PROBES", 20)


def config_with(option: dict, **rest) -> TrainConfig:
    settings = replace(CLIPPED, **option)
    return small_config(task="floyd_warshall", protocol=MODERN, settings=settings, **rest)


@every_option
def test_a_fleet_equals_separate_runs(tmp_path, option):
    config = config_with(option, seeds=(0, 7), precision="fp64")
    together, result = run_to_the_end(config, tmp_path / "together")
    for number, seed in enumerate(config.seeds):
        alone, alone_result = run_to_the_end(replace(config, seeds=(seed,)), tmp_path / str(seed))
        for name, parameter in alone.fleet.parameters.items():
            torch.testing.assert_close(together.fleet.parameters[name][number], parameter[0], rtol=1e-8, atol=1e-9)
        assert result["seeds"][number] == alone_result["seeds"][0]


@every_option
def test_a_run_goes_on_to_the_same_bits_and_is_evaluated_as_it_was_tested(tmp_path, monkeypatch, option):
    monkeypatch.setattr(CLRSTask, "steps_at_once", {"cpu": 1})
    config = config_with(option)
    whole, expected = run_to_the_end(config, tmp_path / "whole")
    folder = RunFolder(tmp_path / "stopped")
    with folder.opened(config.as_dict()):
        first = make_trainer(config, folder)
        turns = first.run()
        for _ in range(3):
            next(turns)
        first.save()
    second, result = run_to_the_end(config, folder.path)
    assert result["seeds"] == expected["seeds"]
    assert torch.equal(second.fleet.values, whole.fleet.values)
    scores = CLRSTask.evaluate(folder, CPU).scores
    assert scores == {row["seed"]: row["test"] for row in result["seeds"]}
    found = evaluate_hints(folder, CPU, nodes=7, examples=3, data_seed=MODERN.test_data_seed, seed=0)
    assert found.output == pytest.approx(scores[0])


@every_option
def test_a_run_without_it_is_known_by_what_it_was_known_by_before(option):
    assert option.keys() <= TrainConfig.later_settings.keys()
    assert not option.keys() & small_config().as_dict()["settings"].keys()
    changed = config_with(option)
    assert changed.as_dict()["settings"].items() >= option.items()
    assert TrainConfig.from_dict(changed.as_dict()) == changed


@every_option
def test_steps_that_cannot_be_folded_are_not_run_by_fused_kernels(option):
    """Only where the option changes the network: on `bfs`, which has no pointers of edges, it does not."""
    for task, is_changed in (("floyd_warshall", True), ("bfs", False)):
        networks = [build_network(task, replace(find_settings("rt"), **changes)) for changes in ({}, option)]
        assert [can_fuse(network) for network in networks] == [True, not is_changed]
