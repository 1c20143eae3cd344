import pytest
import torch

from relational_transformer.clrs.samples.sampling import sample
from relational_transformer.fleet.fleet import Fleet, initialise
from relational_transformer.fleet.precision import set_precision
from relational_transformer.reasoning.build import build_network
from relational_transformer.reasoning.scores import count_all, mean_score
from relational_transformer.training import evaluation
from relational_transformer.training.data import load_split
from relational_transformer.training.evaluation import Evaluator
from tests.training.small import SETTINGS


@pytest.mark.parametrize("task", ["bellman_ford", "graham_scan", "find_maximum_subarray_kadane"])
@pytest.mark.parametrize("channels_at_once", [1, 1600, 10**9])
def test_equals_predicting_one_example_after_the_other(monkeypatch, task: str, channels_at_once: int):
    monkeypatch.setitem(evaluation.CHANNELS_AT_ONCE, "cpu", channels_at_once)
    models = [initialise(lambda: build_network(task, SETTINGS), seed) for seed in (0, 1)]
    for model in models:
        set_precision("fp64", model)  # so that decisions do not hang on rounding
    fleet, network = Fleet(models, torch.device("cpu")), models[0]
    split = load_split(network, sample(task, 5, 6, 2), torch.device("cpu"))
    scores = Evaluator(network, split, 2, "fp64").scores(fleet.parameters)
    for number, model in enumerate(models):
        counts = None
        for example in range(5):
            batch = split.gather(torch.tensor([[example]]), 1)
            inputs, hints, outputs = (
                {key: value[0] for key, value in batch.inputs.items()},
                {key: value[0, 0] for key, value in batch.hints.items()},
                {key: value[0] for key, value in batch.outputs.items()},
            )
            with torch.no_grad():
                predicted = model.predict(inputs, hints, batch.lengths[0]).outputs
            packed = {
                group.key: torch.stack([predicted[name] for name in group.names], dim=-1) for group in model.outputs
            }
            more = count_all(model.outputs, packed, outputs)
            counts = more if counts is None else {key: counts[key] + more[key] for key in more}
        assert scores[number].item() == pytest.approx(mean_score(model.outputs, counts).item(), abs=1e-12)
