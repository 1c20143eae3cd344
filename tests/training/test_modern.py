"""Training by the modern protocol: fresh examples of several sizes, soft hints, and the same promises as ever."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from relational_transformer.clrs import training_block
from relational_transformer.processors.settings import find_settings
from relational_transformer.reasoning import Batch
from relational_transformer.runs import RunFolder
from relational_transformer.training import PROTOCOLS, CLRSTask, TrainConfig, fresh, load_network
from relational_transformer.training.step import TrainingStep
from tests.training.small import SETTINGS, make_trainer, run_to_the_end, small_config

CPU = torch.device("cpu")
MODERN = replace(
    PROTOCOLS["modern"],
    train_lengths=(4, 5),
    validation_nodes=5,
    test_nodes=7,
    evaluation_examples=3,
    validation_examples=6,
    examples=24,
    validation_interval=8,
)
"""Of four updates a part, two of each size."""
CLIPPED = replace(SETTINGS, batch_size=2, gradient_clip=1.0)


@pytest.fixture(autouse=True)
def _few_probes(monkeypatch):
    monkeypatch.setattr(fresh, "PROBES", 20)


def modern_config(task: str = "bfs", **rest) -> TrainConfig:
    return small_config(**{"task": task, "protocol": MODERN, "settings": CLIPPED, **rest})


@pytest.mark.parametrize("task", ["bfs", "insertion_sort", "quickselect"])
def test_a_fleet_equals_separate_runs(tmp_path, task: str):
    config = modern_config(task, seeds=(0, 7), precision="fp64")
    together, result = run_to_the_end(config, tmp_path / "together")
    for number, seed in enumerate(config.seeds):
        alone, alone_result = run_to_the_end(replace(config, seeds=(seed,)), tmp_path / str(seed))
        for name, parameter in alone.fleet.parameters.items():
            torch.testing.assert_close(together.fleet.parameters[name][number], parameter[0], rtol=1e-8, atol=1e-9)
        torch.testing.assert_close(together.rows["loss"][:, number], alone.rows["loss"][:, 0], rtol=1e-9, atol=1e-11)
        assert result["seeds"][number] == alone_result["seeds"][0]


@pytest.mark.parametrize("task", ["heapsort", "dfs"])
def test_a_run_goes_on_from_the_middle_of_a_part_to_the_same_bits(tmp_path, monkeypatch, task: str):
    monkeypatch.setattr(CLRSTask, "steps_at_once", {"cpu": 1})
    small = replace(MODERN, train_lengths=(3, 4), validation_nodes=4, test_nodes=5)
    config = modern_config(task, protocol=small)
    whole, expected = run_to_the_end(config, tmp_path / "whole")
    for stop_after in (1, 2, 6):  # after a part, and one and three steps into the next ones
        folder = RunFolder(tmp_path / f"stopped-{stop_after}")
        with folder.opened(config.as_dict()):
            first = make_trainer(config, folder)
            turns = first.run()
            for _ in range(stop_after):
                next(turns)
            first.save()
        second, result = run_to_the_end(config, folder.path)
        assert result["seeds"] == expected["seeds"]
        assert torch.equal(second.fleet.values, whole.fleet.values)
        assert torch.equal(second.best, whole.best)
        assert folder.metrics.read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()


def test_every_update_is_made_of_its_examples_in_the_blocks(tmp_path, monkeypatch):
    """And of noise that no two updates share."""
    given: list[Batch] = []

    def note(steps: TrainingStep, num_hints: int) -> None:
        drawn = steps.index, steps.teacher_forced, steps.position, steps.uniform
        given.append(steps._prepare(steps.split.examples, *drawn)[0])
        steps.position += 1

    monkeypatch.setattr(TrainingStep, "_train", note)
    run_to_the_end(modern_config("insertion_sort"), tmp_path)
    assert [batch.inputs["node_scalar"].shape[-2] for batch in given] == [4, 5] * 6
    for update, batch in enumerate(given):
        block = training_block("insertion_sort", (0, 1), update // 4, updates=4, batch_size=2, lengths=(4, 5))
        turn, index = block.batch(update % 4)
        scalars = np.stack([block.sizes[turn].inputs[name][index] for name in ("pos", "key")], axis=-1)
        assert torch.equal(batch.inputs["node_scalar"], torch.from_numpy(scalars))
        assert batch.noise is not None
        assert batch.noise.shape == (2, 2, *(4 + turn,) * 2, 1)
    assert len({float(batch.noise.sum()) for batch in given if batch.noise is not None}) == 12


@pytest.mark.parametrize("task", ["insertion_sort", "kmp_matcher", "segments_intersect", "matrix_chain_order"])
def test_tasks_of_every_kind_train_and_are_scored(tmp_path, task: str):
    strings = replace(MODERN, train_lengths=(17,), validation_nodes=16)
    config = modern_config(task, protocol=strings if task == "kmp_matcher" else MODERN)
    trainer, result = run_to_the_end(config, tmp_path / "run")
    assert trainer.rows["loss"].isfinite().all()
    for row in result["seeds"]:
        assert all(0 <= row[name] <= 1 for name in ("validation", "train", "test"))
    scores = list(CLRSTask.evaluate(RunFolder(tmp_path / "run"), CPU).scores.values())
    assert scores == [row["test"] for row in result["seeds"]]


def test_training_lowers_the_loss_also_of_triplet_gmpnn(tmp_path):
    settings = replace(find_settings("triplet_gmpnn"), hidden_size=16, batch_size=4)
    protocol = replace(MODERN, examples=480, validation_interval=160)
    trainer, _ = run_to_the_end(modern_config(settings=settings, protocol=protocol), tmp_path / "run")
    assert (trainer.rows["loss"][-1] < 0.8 * trainer.rows["loss"][0]).all()


def test_examples_longer_than_any_before_are_given_room(tmp_path, monkeypatch):
    config = modern_config("bfs", protocol=replace(MODERN, examples=80))
    roomy, _ = run_to_the_end(config, tmp_path / "roomy")
    monkeypatch.setattr(fresh, "room_for", lambda lengths: int(lengths.max()))
    monkeypatch.setattr(fresh, "buckets_of", lambda lengths, drawn_together: [2])
    monkeypatch.setattr("relational_transformer.training.fresh.buckets_of", lambda lengths, drawn_together: [2])
    narrow, _ = run_to_the_end(config, tmp_path / "narrow")
    assert any(len(size.buckets) > 1 for size in narrow.task.steps.sizes)
    assert torch.equal(narrow.fleet.values, roomy.fleet.values)


def test_a_trained_network_loads_as_it_was_trained(tmp_path):
    run_to_the_end(modern_config("insertion_sort"), tmp_path / "run")
    network = load_network(tmp_path / "run", seed=1)
    assert network.hint_feedback == "soft"
    assert [group.key for group in network.outputs] == ["node_permutation_pointer", "node_mask_one"]


def test_no_protocol_goes_on_with_a_run_of_another(tmp_path):
    run_to_the_end(modern_config(), tmp_path / "run")
    paper = small_config(settings=CLIPPED)
    with (
        pytest.raises(ValueError, match=r"protocol\.data was modern, is None"),
        RunFolder(tmp_path / "run").opened(paper.as_dict()),
    ):
        pass


def test_encoders_without_a_gradient_move_too():
    config = modern_config()
    assert not CLRSTask(config).linears(CLRSTask(config).build())
    config = small_config()
    assert CLRSTask(config).linears(CLRSTask(config).build())


def test_no_more_examples_are_made_when_training_is_over(tmp_path):
    trainer, _ = run_to_the_end(modern_config(), tmp_path / "run")
    assert trainer.task._data.blocks._coming is None


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch's compiler looks at it
def test_a_rehearsal_compiles_all_that_a_run_will_need(tmp_path, traced):
    """So a run that follows finds it in the compiler's cache."""
    config = modern_config("bfs", compile="on")

    def graphs() -> set[str]:
        inputs = ([node.meta["example_value"] for node in graph.graph.find_nodes(op="placeholder")] for graph in traced)
        made = {
            f"{graph.code} {[(one.shape, one.stride(), one.dtype, one.requires_grad) for one in given]}"
            for graph, given in zip(traced, inputs, strict=True)
        }
        traced.clear()
        return made

    with RunFolder(tmp_path / "rehearsal").opened({}) as folder:
        make_trainer(config, folder).rehearse()
    rehearsed = graphs()
    torch.compiler.reset()
    run_to_the_end(config, tmp_path / "run")
    assert graphs() <= rehearsed
