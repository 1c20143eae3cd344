import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch

import relational_transformer
from relational_transformer.runs import RunFolder, train
from relational_transformer.training import CLRSTask, load_network
from tests.training.small import PROTOCOL, SETTINGS, make_trainer, run_to_the_end, small_config


@pytest.mark.parametrize(("task", "clip"), [("bfs", None), ("bfs", 1.0), ("insertion_sort", None)])
def test_a_fleet_equals_separate_runs(tmp_path, task: str, clip: float | None):
    """Three seeds alone and together, in float64: the same parameters, losses and scores."""
    config = small_config(task=task, seeds=(0, 3, 7), precision="fp64", settings=replace(SETTINGS, gradient_clip=clip))
    together, result = run_to_the_end(config, tmp_path / "together")
    for number, seed in enumerate((0, 3, 7)):
        alone, alone_result = run_to_the_end(replace(config, seeds=(seed,)), tmp_path / str(seed))
        for name, parameter in alone.fleet.parameters.items():
            # Biases before a softmax have gradients of rounding alone, which Adam makes steps of: hence not 1e-12.
            torch.testing.assert_close(together.fleet.parameters[name][number], parameter[0], rtol=1e-8, atol=1e-9)
        torch.testing.assert_close(together.rows["loss"][:, number], alone.rows["loss"][:, 0], rtol=1e-9, atol=1e-11)
        assert together.rows["validation"][:, number].tolist() == alone.rows["validation"][:, 0].tolist()
        assert result["seeds"][number] == alone_result["seeds"][0]


def test_clipped_gradients_make_another_run(tmp_path):
    losses = [
        run_to_the_end(
            small_config(settings=replace(SETTINGS, gradient_clip=clip), precision="fp64"), tmp_path / str(clip)
        )[0].rows["loss"]
        for clip in (None, 1e30, 0.1)  # the first gradient of all may well be 10^7
    ]
    torch.testing.assert_close(losses[1], losses[0])
    assert (losses[2][-1] - losses[0][-1]).abs().min() > 1e-3


def test_seeds_differ(tmp_path):
    trainer, _ = run_to_the_end(small_config(), tmp_path / "run")
    assert trainer.rows["loss"][0, 0] != trainer.rows["loss"][0, 1]


def test_training_lowers_the_loss(tmp_path):
    protocol = replace(PROTOCOL, examples=480, validation_interval=48)
    trainer, result = run_to_the_end(small_config(protocol=protocol), tmp_path / "run")
    assert (trainer.rows["loss"][-1] < 0.6 * trainer.rows["loss"][0]).all()
    assert all(row["validation"] > 0.5 for row in result["seeds"])


def test_the_first_of_the_best_validations_is_tested(tmp_path):
    trainer, result = run_to_the_end(small_config(), tmp_path / "run")
    for number, row in enumerate(result["seeds"]):
        scores = trainer.rows["validation"][:, number].tolist()
        assert row["validation"] == max(scores)
        assert row["examples_of_best"] == 12 * (scores.index(max(scores)) + 1)
    scores = CLRSTask.evaluate(RunFolder(tmp_path / "run"), torch.device("cpu")).scores
    assert list(scores.values()) == [row["test"] for row in result["seeds"]]


def test_examples_that_fill_no_whole_interval_are_trained_on_too(tmp_path):
    protocol = replace(PROTOCOL, examples=28)
    trainer, _ = run_to_the_end(small_config(protocol=protocol), tmp_path / "run")
    assert [row["examples"] for row in trainer.metrics()] == [12, 24, 28]
    assert trainer.fleet.count == 7


def test_a_run_goes_on_from_any_checkpoint_to_the_same_bits(tmp_path):
    config = small_config(task="heapsort")
    whole, expected = run_to_the_end(config, tmp_path / "whole")
    for stop_after in (1, 3):
        folder = RunFolder(tmp_path / f"stopped-{stop_after}")
        with folder.opened(config.as_dict()):
            first = make_trainer(config, folder)
            parts = first.run()
            for _ in range(stop_after):
                next(parts)
            first.save()
        second, result = run_to_the_end(config, folder.path)
        assert result["seeds"] == expected["seeds"]
        assert torch.equal(second.fleet.values, whole.fleet.values)
        assert torch.equal(second.best, whole.best)
        assert folder.metrics.read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()


def test_a_run_is_saved_in_the_middle_of_a_part_and_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(CLRSTask, "steps_at_once", {"cpu": 2})
    config = small_config()
    whole, _ = run_to_the_end(config, tmp_path / "whole")
    folder = RunFolder(tmp_path / "stopped")
    with folder.opened(config.as_dict()):
        first = make_trainer(config, folder)
        turns = first.run()
        next(turns)  # the first part, of 3 steps
        next(turns)  # 2 steps of the second
        first.save()
        assert (first.steps, first.fleet.count) == (5, 5)
        assert [row["examples"] for row in folder.read_metrics()] == [12]
        assert len(list(turns)) == 5  # the one that has saved itself goes on as well, to the same numbers
        assert torch.equal(first.fleet.values, whole.fleet.values)
    second, _ = run_to_the_end(config, folder.path)
    assert torch.equal(second.fleet.values, whole.fleet.values)
    assert second.metrics() == whole.metrics()


def test_metrics_so_far_are_of_what_the_device_has_done(tmp_path):
    class Pending:
        def query(self) -> bool:
            return False

    config = small_config()
    with RunFolder(tmp_path).opened(config.as_dict()) as folder:
        trainer = make_trainer(config, folder)
        turns = trainer.run()
        for _ in range(3):
            next(turns)
        assert trainer.metrics_so_far() == trainer.metrics()
        trainer._events = [(3, Pending())]  # pyright: ignore[reportAttributeAccessIssue]
        assert trainer.metrics_so_far() == trainer.metrics()[:1]
        assert trainer.metrics_so_far()[-1]["examples"] == trainer.progress().examples


def test_a_run_that_goes_on_with_another_commit_names_both(tmp_path, monkeypatch):
    monkeypatch.setenv("RT_COMMIT", "first")
    config, folder = small_config(), RunFolder(tmp_path)
    with folder.opened(config.as_dict()):
        trainer = make_trainer(config, folder)
        next(trainer.run())
        trainer.save()
    monkeypatch.setenv("RT_COMMIT", "second")
    _, result = run_to_the_end(config, tmp_path)
    assert (result["earlier_commits"], result["commit"]) == (["first"], "second")


def test_recomputing_changes_no_bit(tmp_path):
    config = small_config(task="insertion_sort")
    plain, _ = run_to_the_end(config, tmp_path / "plain")
    folder = RunFolder(tmp_path / "recomputed")
    with folder.opened(config.as_dict()):
        trainer = make_trainer(config, folder)
        trainer.task.steps.recompute = True
        for _ in trainer.run():
            pass
    assert torch.equal(trainer.fleet.values, plain.fleet.values)
    assert plain.task.steps.recompute is False


def test_a_trajectory_too_long_for_memory_is_recomputed(tmp_path, monkeypatch):
    from relational_transformer.fleet import graphs as memory

    monkeypatch.setattr(memory, "usable_bytes", lambda device: 10_000)
    trainer, _ = run_to_the_end(small_config(task="insertion_sort"), tmp_path / "run")
    assert trainer.task.steps.recompute is True


def test_a_seed_whose_loss_is_not_finite_fails_alone(tmp_path):
    config = small_config(seeds=(0, 1, 2))
    folder = RunFolder(tmp_path / "run")
    with folder.opened(config.as_dict()):
        trainer = make_trainer(config, folder)
        parts = trainer.run()
        next(parts)
        with torch.no_grad():
            trainer.fleet.parameters["processor.transformer.node_input.weight"][1] = torch.nan
        for _ in parts:
            pass
        result = trainer.finish()
    assert [row["failed"] for row in result["seeds"]] == [False, True, False]
    assert result["seeds"][1]["test"] is None
    assert CLRSTask.evaluate(folder, torch.device("cpu")).scores[1] is None
    _, healthy = run_to_the_end(config, tmp_path / "healthy")
    for number in (0, 2):
        assert result["seeds"][number] == healthy["seeds"][number]
    assert folder.read_metrics()[-1]["loss"][1] is None


def test_bfloat16_trains_close_to_float32(tmp_path):
    exact, _ = run_to_the_end(small_config(), tmp_path / "exact")
    rough, _ = run_to_the_end(small_config(precision="bf16"), tmp_path / "rough")
    torch.testing.assert_close(rough.rows["loss"][0], exact.rows["loss"][0], rtol=0.05, atol=0.05)
    assert rough.fleet.values.dtype == torch.float32
    assert not torch.equal(rough.fleet.values, exact.fleet.values)


@pytest.mark.parametrize("model", ["mpnn", "gat", "transformer", "deep_sets"])
def test_every_kind_of_processor_trains_in_a_fleet(tmp_path, model: str):
    settings = replace(SETTINGS, processor=model, pointers_from_edges=False)
    trainer, _ = run_to_the_end(small_config(settings=settings), tmp_path / "run")
    assert trainer.rows["loss"].isfinite().all()
    assert trainer.rows["loss"][-1].mean() < trainer.rows["loss"][0].mean()


def test_a_trained_network_loads_from_its_folder(tmp_path):
    trainer, _ = run_to_the_end(small_config(seeds=(4, 9)), tmp_path / "run")
    network = load_network(tmp_path / "run", seed=9)
    best = trainer.fleet.split(trainer.best)
    for name, parameter in network.named_parameters():
        assert torch.equal(parameter, best[name][1])
    with pytest.raises(ValueError, match=r"has the seeds \[4, 9\], not 5"):
        load_network(tmp_path / "run", seed=5)


def test_the_last_checkpoint_is_written_once(tmp_path):
    """So the one that is kept beside it is an earlier one."""
    folder = RunFolder(tmp_path)
    train(CLRSTask(small_config()), tmp_path, torch.device("cpu"), checkpoint_seconds=1e9)
    assert folder.checkpoint.exists()
    assert not folder.previous_checkpoint.exists()


def test_whether_steps_are_recomputed_is_decided_once_and_kept(tmp_path, monkeypatch):
    """Else a run that goes on where there is more memory would round otherwise."""
    config, folder = small_config(task="insertion_sort"), RunFolder(tmp_path)
    with monkeypatch.context() as little, folder.opened(config.as_dict()):
        little.setattr("relational_transformer.fleet.graphs.usable_bytes", lambda device: 10_000)
        trainer = make_trainer(config, folder)
        next(trainer.run())
        trainer.save()
    resumed, result = run_to_the_end(config, tmp_path)
    assert resumed.task.steps.recompute is True
    assert result["recompute"] is True


def test_the_wait_for_the_first_step_counts_from_the_start_of_the_process_for_its_first_run_alone(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("relational_transformer.runs.trainer._made_before", itertools.count())
    monkeypatch.setattr(relational_transformer, "IMPORTED", relational_transformer.IMPORTED - 1e6)
    first, second = (run_to_the_end(small_config(), tmp_path / name)[1] for name in ("first", "second"))
    assert first["seconds_to_first_step"] > 1e6
    assert 0 < second["seconds_to_first_step"] < 1e6


@pytest.mark.parametrize(("ties", "examples"), [("first", 12), ("last", 48)])
def test_of_equal_validations_the_first_or_the_last_is_tested(tmp_path, monkeypatch, ties: Any, examples: int):
    monkeypatch.setattr(CLRSTask, "validate", lambda task, steps: {"validation": torch.full((2,), 0.5).double()})
    trainer, result = run_to_the_end(small_config(protocol=replace(PROTOCOL, ties=ties)), tmp_path / "run")
    assert [seed["examples_of_best"] for seed in result["seeds"]] == [examples] * 2
    assert torch.equal(trainer.best, trainer.fleet.values) == (ties == "last")
