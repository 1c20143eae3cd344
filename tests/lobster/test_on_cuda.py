"""Lobster training on a CUDA device: graphs, compiled layers, resuming."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from relational_transformer.fleet.precision import Precision, for_computing, set_matrix_products
from relational_transformer.lobster import SETTINGS, LobsterConfig, LobsterProtocol, RelationalSettings
from relational_transformer.regression.batches import draw, group_by_size
from relational_transformer.regression.stack import FleetStack
from relational_transformer.runs import RunFolder, Trainer
from tests.lobster.small import make_trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # compilers of torch warn about their own internals
]

RT = replace(RelationalSettings(), num_layers=4, learning_rate=1e-3)
PROTOCOL = LobsterProtocol(
    train_examples=200, examples=1_600, validation_interval=640, evaluation_examples=60, test_size=40
)


def config(**changes) -> LobsterConfig:
    return replace(LobsterConfig("rt", RT, PROTOCOL, (0, 1, 2), precision="fp32", compile="off"), **changes)


def run(config: LobsterConfig, path: Path, device: str = "cuda", stop_after: int | None = None) -> Trainer:
    folder = RunFolder(path)
    with folder.opened(config.as_dict()):
        trainer = make_trainer(config, folder, device)
        for number, _ in enumerate(trainer.run(), start=1):
            if number == stop_after:
                break
        trainer.save()
    return trainer


@pytest.mark.parametrize("compile", ["off", "on"])
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, compile: str):
    whole = run(config(compile=compile), tmp_path / "whole")
    run(config(compile=compile), tmp_path / "stopped", stop_after=1)
    resumed = run(config(compile=compile), tmp_path / "stopped")
    assert torch.equal(resumed.fleet.values, whole.fleet.values)
    assert torch.equal(resumed.rows["validation"], whole.rows["validation"])


@pytest.mark.parametrize("compile", ["off", "on"])
def test_graphs_and_streams_compute_what_the_cpu_does(tmp_path, compile: str):
    ours = run(config(compile=compile), tmp_path / "cuda")
    reference = run(config(), tmp_path / "cpu", device="cpu", stop_after=5)  # up to the first validation
    assert reference.part == 1
    torch.testing.assert_close(ours.rows["loss"][0].cpu(), reference.rows["loss"][0], rtol=0.02, atol=0.0)


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_captured_gradients_are_as_near_to_float32_as_plain_ones(tmp_path, precision: Precision):
    """The paper's sizes and depth; at every number of nodes the error is at most twice that of the plain model."""
    folder, whole = RunFolder(tmp_path / "run"), replace(PROTOCOL, train_examples=2_000)
    with folder.opened({}):
        setting = config(settings=SETTINGS["rt"], protocol=whole, precision=precision, compile="on", seeds=(0, 1))
        trainer = make_trainer(setting, folder, "cuda")
    engine, plain = trainer.task.steps, FleetStack(trainer.model, compiled=False)
    plain.recompute = True
    index = draw((0, 1), 0, 32, engine.batch_size, len(engine.split))
    drawn = group_by_size(index, engine.split.host_num_nodes, engine.buckets)
    engine.load(drawn)
    engine.stack.recompute = engine.recompute = False
    groups = {size: number for number, size in enumerate(size for sizes in drawn.num_nodes for size in sizes)}
    for size, number in groups.items():
        engine.position.fill_(number)
        engine.gradient.zero_()
        engine._run(size)
        gradients = [engine.gradient.clone()]
        for cast in (precision, "fp32"):
            set_matrix_products(cast)
            values = engine.fleet.values.detach().clone().requires_grad_()
            graphs, distances = engine.split.gather(engine.index[number], size)
            predictions = plain(engine.fleet.split(for_computing(values, cast)), graphs).float()
            loss = (predictions - distances.float()).square().sum() / engine.batch_size
            gradients += torch.autograd.grad(loss, values)
        set_matrix_products(precision)
        ours, same, exact = gradients
        assert (ours - exact).norm() <= 2 * (same - exact).norm() + 1e-3 * exact.norm(), size


@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_baselines_train_in_bfloat16_and_float32_alike(tmp_path, model):
    settings = replace(SETTINGS[model], num_layers=4)
    made = config(model=model, settings=settings, compile="on")
    losses = [
        run(replace(made, precision=precision), tmp_path / precision).rows["loss"][0] for precision in ("fp32", "bf16")
    ]
    torch.testing.assert_close(losses[1], losses[0], rtol=0.1, atol=0.0)


def test_recomputed_layers_train_like_stored_ones(tmp_path, monkeypatch):
    stored = run(config(compile="on"), tmp_path / "stored")
    monkeypatch.setattr("relational_transformer.fleet.graphs.usable_bytes", lambda device: 0)
    recomputed = run(config(compile="on"), tmp_path / "recomputed")
    assert (stored.task.steps.recompute, recomputed.task.steps.recompute) == (False, True)
    torch.testing.assert_close(recomputed.rows["loss"][0], stored.rows["loss"][0], rtol=1e-3, atol=0.0)
