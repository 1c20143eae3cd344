"""Relative losses over a split, whatever it is cut into."""

import numpy as np
import pytest
import torch

from relational_transformer.fleet.fleet import Fleet, initialise
from relational_transformer.lobster import (
    SETTINGS,
    LobsterConfig,
    LobsterProtocol,
    build_model,
    memory,
    sample,
)
from relational_transformer.lobster.data import load_split
from relational_transformer.lobster.memory import check_memory
from relational_transformer.lobster.settings import ModelName
from relational_transformer.lobster.task import relative_error
from relational_transformer.regression import evaluation
from relational_transformer.regression.evaluation import Evaluator, chunks_of
from relational_transformer.regression.stack import FleetStack
from relational_transformer.runs.run_folder import RunFolder
from tests.lobster.small import CPU, SMALL, make_trainer

LOBSTERS = sample(np.array([4, 30, 9, 17, 5, 22, 13]), seed=3)


@pytest.mark.parametrize("pairs_at_once", [1, 3_000, 1_000_000])
@pytest.mark.parametrize("name", ["rt", "gcn", "gat"])
def test_mean_errors_are_those_of_each_seed_and_graph_alone(monkeypatch, name: ModelName, pairs_at_once: int):
    monkeypatch.setitem(evaluation.PAIRS_AT_ONCE, "cpu", pairs_at_once)
    models = [initialise(lambda: build_model(name, SMALL[name]), seed).double() for seed in (0, 1, 2)]
    split = load_split(LOBSTERS, CPU)
    expected = []
    for model in models:
        losses = []
        for number in range(len(split)):
            graph, distance = split.gather(torch.tensor([number]), int(LOBSTERS.num_nodes[number]))
            losses.append(float((model(graph).detach() - distance).abs() / distance))
        expected.append(sum(losses) / len(losses))
    fleet = Fleet(models, CPU)
    evaluator = Evaluator(FleetStack(models[0], compiled=False), split, 3, "fp64", relative_error)
    assert evaluator.seeds_at_once == {1: 1, 3_000: 2, 1_000_000: 3}[pairs_at_once]  # the largest graph has 35 nodes
    assert evaluator.mean_errors(fleet.parameters).tolist() == pytest.approx(expected)


def test_graphs_that_cannot_fit_are_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda device: 5_000_000_000)
    check_memory("rt", 500, "tf32", CPU)
    with pytest.raises(ValueError, match=r"1240 nodes needs about 10 GB, and 5 GB are free"):
        check_memory("rt", 1_240, "tf32", CPU)
    for model in ("gcn", "gat"):
        check_memory(model, 1_240, "tf32", CPU)
        with pytest.raises(ValueError, match="a graph of 60000 nodes needs about"):
            check_memory(model, 60_000, "tf32", CPU)


def test_a_run_whose_graphs_cannot_fit_is_refused_before_it_trains(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "free_bytes", lambda device: 5_000_000_000)
    config = LobsterConfig("rt", SETTINGS["rt"], LobsterProtocol(test_size=3_000, evaluation_examples=1), (0,))
    with pytest.raises(ValueError, match=r"needs about .* GB, and 5 GB are free"):
        make_trainer(config, RunFolder(tmp_path))


def test_validation_and_test_are_cut_into_parts_of_the_same_few_shapes():
    """So that what was compiled for the one serves the other."""
    shapes = [
        {(num_nodes, len(index)) for num_nodes, index, _ in chunks_of(graphs.num_nodes, most_pairs=1_000_000)}
        for graphs in (LobsterProtocol().validation_graphs(), LobsterProtocol().test_graphs())
    ]
    assert shapes[0] == shapes[1] == {(128, 61), (160, 39)}
