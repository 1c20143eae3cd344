"""A whole network of several seeds on the kernels of attention and edge update."""

from dataclasses import replace

import pytest
import torch

from relational_transformer.fleet.fleet import Fleet, initialise
from relational_transformer.fleet.precision import Precision, set_precision
from relational_transformer.nn import kernels
from relational_transformer.processors import find_settings
from relational_transformer.reasoning.build import build_network
from relational_transformer.training import Protocol
from relational_transformer.training.data import load_split, make_split
from relational_transformer.training.evaluation import Evaluator

CPU = torch.device("cpu")


@pytest.mark.parametrize(("precision", "compiled"), [("fp32", False), ("bf16", True)])
def test_a_fleet_is_scored_as_on_the_plain_path(precision: Precision, compiled: bool, request):
    if compiled:
        request.getfixturevalue("traced")
    settings = replace(find_settings("rt"), hidden_size=32, num_heads=2, num_layers=1)
    models = [initialise(lambda: build_network("bfs", settings), seed) for seed in range(2)]
    set_precision(precision, models[0])
    protocol = Protocol(evaluation_examples=2, validation_nodes=5)
    split = load_split(models[0], make_split("bfs", "val", protocol), CPU)
    parameters = Fleet(models, CPU).parameters
    scores = []
    for mode in (False, True):
        torch.compiler.reset()
        with kernels.use_kernels(mode):
            scores.append(Evaluator(models[0], split, 2, precision, compiled=compiled).scores(parameters))
    plain, fused = scores
    # 10 pointers a seed; in bfloat16 two that are nearly equal may change places.
    assert (plain - fused).abs().max() <= (0 if precision == "fp32" else 0.1)
    assert plain.unique().numel() == 2
