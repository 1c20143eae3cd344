"""Training on a CUDA device: graphs, fused kernels, resuming."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from relational_transformer.fleet import graphs as memory
from relational_transformer.nn import kernels
from relational_transformer.processors.settings import ABLATIONS, TUNED
from relational_transformer.runs import RunFolder, Trainer, train_together
from relational_transformer.training import CLRSTask, Protocol, TrainConfig
from tests.training.small import make_trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # compilers of torch warn about their own internals
]

NO_EDGE_UPDATES = {"model": "rt_no_edge_updates", "settings": ABLATIONS["rt_no_edge_updates"]}
TRANSFORMER = {"model": "transformer", "settings": ABLATIONS["transformer"]}
PROTOCOL = Protocol(train_examples=200, examples=480, validation_interval=160, test_nodes=20)


def config(task: str = "bfs", **changes) -> TrainConfig:
    made = TrainConfig(task, "rt", TUNED["rt"], PROTOCOL, (0, 1, 2), precision="bf16", compile="off")
    return replace(made, **changes)


def run(config: TrainConfig, path: Path, stop_after: int | None = None) -> Trainer:
    folder = RunFolder(path)
    with folder.opened(config.as_dict()):
        trainer = make_trainer(config, folder, "cuda")
        for number, _ in enumerate(trainer.run(), start=1):
            if number == stop_after:
                break
        trainer.save()
    return trainer


@pytest.mark.parametrize(("compile", "changes"), [("off", {}), ("on", {}), ("on", TRANSFORMER)])
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, compile: str, changes):
    setting = config(compile=compile, **changes)
    whole = run(setting, tmp_path / "whole")
    run(setting, tmp_path / "stopped", stop_after=1)
    resumed = run(setting, tmp_path / "stopped")
    assert torch.equal(resumed.fleet.values, whole.fleet.values)
    assert torch.equal(resumed.rows["validation"], whole.rows["validation"])


def test_graphs_and_streams_compute_what_the_cpu_does(tmp_path):
    few = replace(PROTOCOL, examples=16, validation_interval=16)  # every step of Adam makes more of a rounding
    setting = config(precision="fp32", protocol=few)
    ours = run(setting, tmp_path / "cuda")
    folder = RunFolder(tmp_path / "cpu")
    with folder.opened(setting.as_dict()):
        reference = make_trainer(setting, folder)
        next(reference.run())
    torch.testing.assert_close(ours.rows["loss"][0].cpu(), reference.rows["loss"][0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("precision", "compile", "changes"),
    [
        *(("tf32", "off", {}), ("bf16", "off", {}), ("bf16", "on", {}), ("bf16", "on", NO_EDGE_UPDATES)),
    ],
)
def test_kernels_train_like_the_plain_path(tmp_path, precision, compile, changes):
    setting = config(precision=precision, compile=compile, **changes)
    with kernels.use_kernels(True):
        fused = run(setting, tmp_path / "fused")
    with kernels.use_kernels(False):
        plain = run(setting, tmp_path / "plain")
    torch.testing.assert_close(fused.rows["loss"][0], plain.rows["loss"][0], rtol=0.02, atol=0.02)


@pytest.mark.parametrize("compile", ["off", "on"])
def test_a_trajectory_too_long_for_memory_is_recomputed_to_the_same_losses(tmp_path, monkeypatch, compile: str):
    few = replace(PROTOCOL, examples=16, validation_interval=16)
    setting = config("insertion_sort", precision="tf32", compile=compile, protocol=few)
    kept = run(setting, tmp_path / "kept")
    monkeypatch.setattr(memory, "usable_bytes", lambda device: 10_000)
    recomputed = run(setting, tmp_path / "recomputed")
    assert (kept.task.steps.recompute, recomputed.task.steps.recompute) == (False, True)
    torch.testing.assert_close(recomputed.rows["loss"][0], kept.rows["loss"][0], rtol=0.02, atol=0.02)


def test_every_seed_of_a_compiled_fleet_trains_as_it_does_alone(tmp_path):
    few = replace(PROTOCOL, examples=16, validation_interval=16)
    fleet = run(config(compile="on", protocol=few), tmp_path / "fleet")
    for seed in (0, 1, 2):
        alone = run(config(compile="on", protocol=few, seeds=(seed,)), tmp_path / str(seed))
        torch.testing.assert_close(fleet.rows["loss"][:, seed], alone.rows["loss"][:, 0], rtol=0.02, atol=0.02)
        torch.testing.assert_close(
            fleet.rows["validation"][:, seed], alone.rows["validation"][:, 0], rtol=0.0, atol=0.05
        )


@pytest.mark.parametrize("compile", ["off", "on"])
def test_fleets_side_by_side_equal_fleets_alone(tmp_path, compile: str):
    """Three models, two at once: the second is compiled while the first trains, and the third begins when one ends."""
    settings = [config("bfs"), config("binary_search", **TRANSFORMER), config("bfs", **NO_EDGE_UPDATES)]
    settings = [replace(setting, compile=compile) for setting in settings]
    runs = [(CLRSTask(setting), str(tmp_path / f"together-{setting.model}")) for setting in settings]
    together = train_together(runs, torch.device("cuda"), at_once=2)
    for setting, result in zip(settings, together, strict=True):
        (alone,) = train_together([(CLRSTask(setting), str(tmp_path / f"alone-{setting.model}"))], torch.device("cuda"))
        assert alone["seeds"] == result["seeds"]
        folders = (RunFolder(tmp_path / f"{where}-{setting.model}") for where in ("together", "alone"))
        assert len({folder.metrics.read_text() for folder in folders}) == 1
