"""Whole runs: fleets against single runs, learning, results, and going on after a stop."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from relational_transformer import lobster
from relational_transformer.lobster import LobsterConfig
from relational_transformer.lobster.settings import ModelName
from relational_transformer.regression.evaluation import Evaluator
from relational_transformer.runs.run_folder import RunFolder
from tests.lobster.small import CPU, PROTOCOL, RELATIONAL, make_trainer, run_to_the_end, small_config, train_run


@pytest.mark.parametrize("model", ["rt", "gat"])
def test_a_fleet_gives_the_results_of_separate_runs(tmp_path, model: ModelName):
    _, together = run_to_the_end(small_config(model, seeds=(4, 7), precision="fp64"), tmp_path / "fleet")
    for number, seed in enumerate((4, 7)):
        _, alone = run_to_the_end(small_config(model, seeds=(seed,), precision="fp64"), tmp_path / str(seed))
        for key, value in alone["seeds"][0].items():
            assert together["seeds"][number][key] == pytest.approx(value, rel=1e-9), key


def test_a_tiny_run_overfits(tmp_path):
    protocol = replace(PROTOCOL, train_examples=5, examples=750, validation_interval=150)
    settings = replace(RELATIONAL, learning_rate=1e-2, batch_size=5)
    trainer, _ = run_to_the_end(small_config(seeds=(0,), protocol=protocol, settings=settings), tmp_path / "run")
    first, *_, last = [row["loss"][0] for row in trainer.metrics()]
    assert last < 0.05 < first


def test_the_parameters_that_are_tested_were_best_on_validation(tmp_path):
    trainer, result = run_to_the_end(small_config(), tmp_path / "run")
    metrics = trainer.metrics()
    assert [row["examples"] for row in metrics] == [40, 80, 96]
    for number, row in enumerate(result["seeds"]):
        losses = [one["validation"][number] for one in metrics]
        assert row["validation"] == min(losses)
        assert row["examples_of_best"] == metrics[losses.index(min(losses))]["examples"]
        assert not row["failed"]
    scores = lobster.LobsterTask.evaluate(RunFolder(tmp_path / "run"), CPU).scores
    assert list(scores.values()) == pytest.approx([row["test"] for row in result["seeds"]])


def test_a_result_says_what_was_run_and_what_oracles_score(tmp_path):
    config = small_config("gcn")
    _, result = run_to_the_end(config, tmp_path / "run")
    assert LobsterConfig.from_dict(result["config"]) == config
    assert (result["config"]["task"], result["metric"]) == ("lobster", "relative loss")
    assert result["seeds"][0].keys() == {
        "seed", "train", "validation", "examples_of_best", "test", "test_in_distribution", "failed",
    }  # fmt: skip
    assert [oracle["cap"] for oracle in result["oracles"]] == [14, 23, 28, 30]
    assert {"commit", "versions", "hardware", "kernels", "seconds", "parameters"} <= result.keys()
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == json.loads(json.dumps(result))


def test_the_trained_model_of_a_seed_can_be_loaded(tmp_path):
    trainer, _ = run_to_the_end(small_config(), tmp_path / "run")
    model = lobster.load_model(tmp_path / "run", seed=1)
    best = trainer.fleet.split(trainer.best)
    assert all(torch.equal(parameter, best[name][1]) for name, parameter in model.named_parameters())
    with pytest.raises(ValueError, match=r"has the seeds \[0, 1\], not 5"):
        lobster.load_model(tmp_path / "run", seed=5)


def test_a_seed_that_diverges_is_marked_and_the_other_goes_on(tmp_path):
    config, folder = small_config(), RunFolder(tmp_path / "run")
    with folder.opened(config.as_dict()):
        trainer = make_trainer(config, folder)
        with torch.no_grad():
            trainer.fleet.parameters["first.node_input.weight"][0] = float("nan")
        for _ in trainer.run():
            pass
        result = trainer.finish()
    assert [row["failed"] for row in result["seeds"]] == [True, False]
    assert result["seeds"][0]["test"] is None
    assert result["seeds"][1]["test"] > 0


@pytest.mark.parametrize("where", ["validation", "test", "train"])
def test_a_score_that_is_no_number_does_not_cost_the_result(tmp_path, monkeypatch, where: str):
    """Seed 0 overflows on larger graphs, as float32 may; its training was finite throughout."""
    plain = Evaluator.mean_errors

    def overflow(self: Evaluator, parameters) -> torch.Tensor:
        losses = plain(self, parameters)
        is_validation = self is trainer.task.evaluator
        is_test = (
            not is_validation and len(self.split) == PROTOCOL.evaluation_examples and self.stack is trainer.task.stack
        )
        seen = "validation" if is_validation else "test" if is_test else "train"
        return losses.index_fill(0, torch.tensor([0]), float("nan")) if seen == where else losses

    monkeypatch.setattr(Evaluator, "mean_errors", overflow)
    config, folder = small_config("gcn"), RunFolder(tmp_path / "run")
    with folder.opened(config.as_dict()):
        trainer = make_trainer(config, folder)
        for _ in trainer.run():
            pass
        bad, good = trainer.finish()["seeds"]
    assert bad["failed"] is (where != "train")
    assert (bad["test"] is None, bad["train"]) == (where != "train", None)
    assert not good["failed"]
    assert None not in good.values()
    monkeypatch.undo()
    scores = lobster.LobsterTask.evaluate(folder, CPU).scores
    assert (scores[0] is None) == (where == "validation")


def test_a_run_that_was_left_goes_on_to_the_same_bits(tmp_path):
    whole, expected = run_to_the_end(small_config(), tmp_path / "whole")
    config, folder = small_config(), RunFolder(tmp_path / "stopped")
    with folder.opened(config.as_dict()):
        trainer = make_trainer(config, folder)
        running = trainer.run()
        for _ in range(3):
            next(running)
        assert trainer.examples == 72  # in the middle of what the second validation is about
        trainer.save()
    resumed, result = run_to_the_end(config, folder.path)
    assert result["seeds"] == expected["seeds"]
    assert torch.equal(resumed.fleet.values, whole.fleet.values)
    assert resumed.metrics() == whole.metrics()


def test_a_finished_run_is_not_run_again_and_other_settings_are_refused(tmp_path):
    _, result = run_to_the_end(small_config(), tmp_path / "run")
    reports = []
    assert train_run(small_config(), tmp_path / "run", report=reports.append) == json.loads(json.dumps(result))
    assert not reports
    with pytest.raises(ValueError, match="model was rt, is gcn"):
        train_run(small_config("gcn"), tmp_path / "run")


def test_training_from_python_needs_neither_tyro_nor_rich():
    program = (
        "import sys; sys.modules.update(dict.fromkeys(['tyro', 'rich', 'matplotlib', 'optuna', 'torch_geometric'])); "
        "from relational_transformer import lobster, runs; runs.train, lobster.LobsterTask"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
