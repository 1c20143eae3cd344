"""Runs on QM9: they go on to the same numbers, seeds are runs of their own, and what can be learnt is learnt."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from relational_transformer.fleet.adam import Schedule
from relational_transformer.molecules import MoleculeRegressor, QM9Config, QM9Task, load_model, load_qm9
from relational_transformer.molecules.preparation import Prepared
from relational_transformer.molecules.task import evaluator_of
from relational_transformer.runs import RunFolder, Trainer
from tests.molecules.small import CPU, PROTOCOL, SETTINGS, small_config, train_run

pytestmark = pytest.mark.usefixtures("small_qm9")


def run(config: QM9Config, path: Path, stop_after: int | None = None) -> Trainer:
    folder = RunFolder(path)
    with folder.opened(config.as_dict()):
        trainer = Trainer(QM9Task(config), folder, CPU)
        for number, _ in enumerate(trainer.run(), start=1):
            if number == stop_after:
                break
        trainer.save()
    return trainer


def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path: Path):
    whole = run(small_config(), tmp_path / "whole")
    run(small_config(), tmp_path / "stopped", stop_after=2)
    resumed = run(small_config(), tmp_path / "stopped")
    assert torch.equal(resumed.fleet.values, whole.fleet.values)
    assert torch.equal(resumed.rows["validation"], whole.rows["validation"])


def test_a_fleet_is_its_seeds_alone(tmp_path: Path):
    exact = small_config("qm9_u0", precision="fp64")
    together = train_run(exact, tmp_path / "together")["seeds"]
    for row in together:
        (alone,) = train_run(replace(exact, seeds=(row["seed"],)), tmp_path / f"seed-{row['seed']}")["seeds"]
        assert alone["test"] == pytest.approx(row["test"], rel=1e-9)


def test_errors_are_those_of_the_trained_model_in_the_unit_of_the_target(tmp_path: Path):
    """Padding, buckets, the fleet and the scale change nothing; so does saving."""
    pytest.importorskip("safetensors")
    config = small_config("qm9_u0", precision="fp64")
    result = train_run(config, tmp_path / "run")
    data = Prepared.of(load_qm9(), config)
    model = load_model(tmp_path / "run", seed=1)
    model.save_pretrained(tmp_path / "model")
    again = MoleculeRegressor.from_pretrained(tmp_path / "model")
    errors = []
    for number in data.indices.test:
        molecule, _ = data.split([number], CPU, torch.float64).gather(
            torch.tensor([0]), int(data.qm9.num_atoms[number])
        )
        molecule = molecule._replace(
            **{name: getattr(molecule, name).double() for name in ("atoms", "bonds", "positions")}
        )
        with torch.no_grad():
            errors.append((again(molecule) - data.values[number]).abs().item())
    assert sum(errors) / len(errors) == pytest.approx(result["seeds"][1]["test"], rel=1e-6)


def test_a_result_says_unit_data_and_baselines(tmp_path: Path):
    result = train_run(small_config("qm9_u0"), tmp_path)
    assert (result["unit"], len(result["data_sha256"])) == ("meV", 64)
    data = Prepared.of(load_qm9(), small_config("qm9_u0"))
    train, test = data.values[data.indices.training], data.values[data.indices.test]
    assert result["baselines"]["mean"] == pytest.approx((test - train.mean()).abs().mean().item())
    assert result["baselines"]["atoms"] != result["baselines"]["mean"]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["qm9_gap", "qm9_u0"])  # averaged over the atoms, added up
def test_thirty_two_molecules_are_learnt_by_heart(tmp_path: Path, task: str):
    settings = replace(
        SETTINGS, head_size=16, node_hidden_size=32, edge_size=16, edge_hidden_sizes=(16, 16), batch_size=32
    )
    protocol = replace(PROTOCOL, train_molecules=32, examples=32 * 300, validation_interval=32 * 300)
    schedule = Schedule(20, "cosine")
    trainer = run(small_config(task, settings=settings, protocol=protocol, schedule=schedule, seeds=(0,)), tmp_path)
    data = trainer.task.data_of_run
    evaluator = evaluator_of(trainer.task.stack, data, data.indices.training, trainer.config, CPU)
    assert evaluator.mean_errors(trainer.fleet.parameters) < 0.1 * data.scale.std


def test_an_unknown_target_is_refused():
    with pytest.raises(ValueError, match="no target of QM9 is called 'mass'; there are mu, alpha"):
        small_config("qm9_mass")
