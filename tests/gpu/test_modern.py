"""Training by the modern protocol on a CUDA device: all sizes, captured and replayed, as kernels and without them."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from relational_transformer.fleet import graphs as memory
from relational_transformer.fleet.adam import Schedule
from relational_transformer.nn import kernels
from relational_transformer.processors.settings import find_settings
from relational_transformer.runs import RunFolder, Trainer, train_together
from relational_transformer.training import PROTOCOLS, CLRSTask, TrainConfig, fresh
from tests.training.small import SETTINGS, make_trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # compilers of torch warn about their own internals
]

PART, PARTS = 10, 3
PROTOCOL = replace(
    PROTOCOLS["modern"],
    validation_examples=8,
    evaluation_examples=2,
    test_nodes=20,
    examples=32 * PART * PARTS,
    validation_interval=32 * PART,
)
"""Of ten updates a part, two of each size; of string matchers, ten of the one size that they have."""
ONE_LAYER = replace(find_settings("rt", modern=True), num_layers=1)


@pytest.fixture(autouse=True)
def _few_probes(monkeypatch):
    monkeypatch.setattr(fresh, "PROBES", 100)


def config(task: str = "bfs", **changes) -> TrainConfig:
    made = TrainConfig(task, "rt", ONE_LAYER, PROTOCOL, (0, 1, 2), precision="bf16", compile="off")
    return replace(made, **changes)


def run(config: TrainConfig, path: Path, stop_after: int | None = None, device: str = "cuda") -> Trainer:
    folder = RunFolder(path)
    with folder.opened(config.as_dict()):
        trainer = make_trainer(config, folder, device)
        for number, _ in enumerate(trainer.run(), start=1):
            if number == stop_after:
                break
        trainer.save()
    return trainer


def test_a_run_stopped_within_a_part_goes_on_to_the_same_bits(tmp_path):
    whole = run(config(), tmp_path / "whole")
    stopped = run(config(), tmp_path / "stopped", stop_after=2)
    assert PART < stopped.steps < 2 * PART
    resumed = run(config(), tmp_path / "stopped")
    assert torch.equal(resumed.fleet.values, whole.fleet.values)
    assert torch.equal(resumed.rows["validation"], whole.rows["validation"])


def test_graphs_and_a_schedule_compute_what_the_cpu_does(tmp_path):
    few = replace(PROTOCOL, examples=8 * PART, validation_interval=8 * PART)
    setting = config(
        settings=replace(SETTINGS, batch_size=8, gradient_clip=1.0), protocol=few, precision="fp32",
        schedule=Schedule(warmup_steps=4, decay="cosine"),
    )  # fmt: skip
    ours, reference = (run(setting, tmp_path / device, device=device) for device in ("cuda", "cpu"))
    torch.testing.assert_close(ours.rows["loss"].cpu(), reference.rows["loss"], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(ours.fleet.values.cpu(), reference.fleet.values, rtol=0.0, atol=1e-3)


@pytest.mark.parametrize(
    ("task", "compile"),
    [
        ("bfs", "off"),
        ("kmp_matcher", "off"),
        ("mst_kruskal", "off"),
        ("insertion_sort", "off"),
        ("insertion_sort", "on"),
    ],
)
def test_layers_of_all_sizes_are_kernels_and_train_like_the_plain_path(tmp_path, task: str, compile):
    few = replace(PROTOCOL, examples=32 * PART)
    setting = config(task, compile=compile, protocol=few)
    fused = run(setting, tmp_path / "fused")
    if not kernels.has_kernels(torch.device("cuda")):
        pytest.skip("layers are no kernels on this device")
    assert fused.task.steps.layers_are_kernels
    with kernels.use_kernels(False):
        plain = run(replace(setting, compile="off"), tmp_path / "plain")
    assert not plain.task.steps.layers_are_kernels
    torch.testing.assert_close(fused.rows["loss"], plain.rows["loss"], rtol=0.02, atol=0.02)


def test_compiled_pieces_have_finite_gradients_on_fewer_than_eight_nodes(tmp_path):
    """There a maximum is unrolled by the compiler: `processors/largest.py`."""
    few = replace(PROTOCOL, train_lengths=(7,), examples=32 * PART)
    trained = run(config("dfs", compile="on", protocol=few), tmp_path / "run")
    assert trained.task.steps.finite.all()
    assert trained.fleet.values.isfinite().all()


@pytest.mark.parametrize("task", ["bfs", "kmp_matcher"])  # of several sizes, and of one: then all graphs are dropped
def test_examples_longer_than_any_before_are_captured_again(tmp_path, monkeypatch, task: str):
    roomy = run(config(task), tmp_path / "roomy")
    monkeypatch.setattr(fresh, "room_for", lambda lengths: int(lengths.max()))
    monkeypatch.setattr(fresh, "buckets_of", lambda lengths, drawn_together: [2])
    narrow = run(config(task), tmp_path / "narrow")
    assert any(len(size.buckets) > 1 for size in narrow.task.steps.sizes)
    torch.testing.assert_close(narrow.rows["loss"], roomy.rows["loss"], rtol=0.01, atol=0.01)


def test_trajectories_too_long_for_memory_are_recomputed_to_the_same_losses(tmp_path, monkeypatch):
    few = replace(PROTOCOL, examples=32 * PART)
    kept = run(config("insertion_sort", protocol=few), tmp_path / "kept")
    monkeypatch.setattr(memory, "usable_bytes", lambda device: 10_000)
    recomputed = run(config("insertion_sort", protocol=few), tmp_path / "recomputed")
    assert (kept.task.steps.recompute, recomputed.task.steps.recompute) == (False, True)
    torch.testing.assert_close(recomputed.rows["loss"], kept.rows["loss"], rtol=0.02, atol=0.02)


def test_fleets_side_by_side_equal_fleets_alone(tmp_path):
    """Three tasks, two at once: the second is captured while the first trains, and the third begins when one ends."""
    settings = [config(task) for task in ("bfs", "kmp_matcher", "insertion_sort")]
    runs = [(CLRSTask(setting), str(tmp_path / f"together-{setting.task}")) for setting in settings]
    together = train_together(runs, torch.device("cuda"), at_once=2)
    for setting, result in zip(settings, together, strict=True):
        (alone,) = train_together([(CLRSTask(setting), str(tmp_path / f"alone-{setting.task}"))], torch.device("cuda"))
        assert alone["seeds"] == result["seeds"]
