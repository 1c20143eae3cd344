"""What a trial trains, really trained, at a size for tests."""

from dataclasses import replace

import optuna
import pytest

from relational_transformer.clrs import CORE_TASKS
from relational_transformer.training import Protocol
from relational_transformer.tuning import GRIDS, GridDescentSampler, Objective, training, work
from relational_transformer.tuning.training import TUNING_PROTOCOL, TaskTraining, with_data_seeds

CONFIGURATION = {
    "batch_size": 4,
    "num_layers": 1,
    "learning_rate": 4e-3,
    "num_heads": 3,
    "head_size": 8,
    "node_hidden_size": 4,
    "edge_hidden_size_1": 12,
    "edge_hidden_size_2": 4,
    "pointers_from_edges": True,
    "global_mode": "cat",
}
SMALL = Protocol(
    train_examples=20,
    train_nodes=5,
    validation_nodes=5,
    test_nodes=7,
    evaluation_examples=6,
    examples=24,
    validation_interval=12,
)


def test_the_tuning_protocol_is_the_papers_but_for_what_the_paper_changes():
    assert replace(TUNING_PROTOCOL, examples=320_000, minimum_evaluation_examples=0) == Protocol()
    assert TUNING_PROTOCOL.examples == 32_000
    assert TUNING_PROTOCOL.minimum_evaluation_examples == 100
    assert TaskTraining("rt").tasks == CORE_TASKS


def test_every_run_and_task_has_data_of_its_own_and_none_of_it_is_canonical():
    seeds = []
    for task, seed in [("bfs", 1), ("bfs", 2), ("dfs", 1)]:
        protocol = with_data_seeds(TUNING_PROTOCOL, task, seed)
        seeds += [protocol.train_data_seed, protocol.validation_data_seed, protocol.test_data_seed]
    assert len(set(seeds)) == 9
    assert not set(seeds) & {1, 2, 3}


def test_a_run_is_determined_by_its_seed():
    train = TaskTraining("rt", ("bfs", "insertion_sort"), SMALL)
    first = train(CONFIGURATION, seed=5)
    assert list(first) == ["bfs", "insertion_sort"]
    assert train(CONFIGURATION, seed=5) == first
    assert train(CONFIGURATION, seed=6) != first


def test_the_configuration_reaches_the_trainer():
    config = TaskTraining("rt", ("bfs",), SMALL, num_seeds=3).config("bfs", CONFIGURATION, seed=5)
    assert config.settings.hidden_size == 24
    assert config.settings.edge_hidden_sizes == (12, 4)
    assert config.settings.learning_rate == 4e-3
    assert config.seeds == (5, 6, 7)


def test_the_score_is_the_mean_test_score_of_the_fleet_and_a_diverged_seed_counts_as_nothing(monkeypatch):
    def train_together(runs, device, report):
        return [{"seeds": [{"test": 0.9, "failed": False}, {"test": None, "failed": True}]} for _ in runs]

    monkeypatch.setattr(training, "train_together", train_together)
    assert TaskTraining("rt", ("bfs",), SMALL, num_seeds=2)(CONFIGURATION, seed=5) == {"bfs": 0.45}


def test_a_search_that_is_stopped_promises_nothing_of_the_trial_under_way(monkeypatch):
    def stop(runs, device, report) -> None:
        raise training.Stopped("stopped by SIGINT, saved /tmp/rt-tune at example 320")

    monkeypatch.setattr(training, "train_together", stop)
    configuration = {name: values[0] for name, values in GRIDS["rt"].items()}
    with pytest.raises(KeyboardInterrupt, match="lost the trial under way, kept all others"):
        TaskTraining("rt", ("bfs",))(configuration, seed=0)


def test_progress_is_told_by_task():
    seen = {}
    TaskTraining("mpnn", ("bfs", "insertion_sort"), SMALL, watch=seen.__setitem__)({"hidden_size": 45}, seed=0)
    assert seen == {"bfs": 24, "insertion_sort": 24}


@pytest.mark.parametrize("model", ["mpnn", "gat"])
def test_a_search_really_trains(model):
    grid = {name: values[:2] for name, values in GRIDS[model].items()}
    study = optuna.create_study(direction="maximize", sampler=GridDescentSampler(grid, seed=0))
    search = work(study, grid, Objective(grid, TaskTraining(model, ("bfs",), SMALL)), trials=3)
    assert search.runs == 3
    assert all(0.0 <= trial.value <= 1.0 for trial in study.trials)
