"""Training steps: groups and recomputation change no number, compiled layers compute the same."""

import functools

import numpy as np
import pytest
import torch

from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.fleet import Fleet, initialise
from relational_transformer.fleet.graphs import saved_bytes
from relational_transformer.fleet.precision import Precision
from relational_transformer.lobster import build_model, sample, spread_sizes
from relational_transformer.lobster.data import load_split
from relational_transformer.lobster.settings import ModelName
from relational_transformer.lobster.task import squared_error
from relational_transformer.regression import step as step_module
from relational_transformer.regression.batches import draw, group_by_size
from relational_transformer.regression.stack import FleetStack
from relational_transformer.regression.step import TrainingStep
from tests.lobster.small import CPU, SMALL

SEEDS = (0, 1, 2)


def make_engine(
    name: ModelName = "rt",
    precision: Precision = "fp64",
    compiled: bool = False,
    sizes: tuple[int, int, int] = (40, 4, 20),
) -> TrainingStep:
    models = [initialise(lambda: build_model(name, SMALL[name]), seed) for seed in SEEDS]
    if precision == "fp64":
        models = [model.double() for model in models]
    split = load_split(sample(spread_sizes(*sizes), seed=1), CPU)
    fleet = Fleet(models, CPU)
    settings = SMALL[name]
    adam = Adam(
        fleet, settings.learning_rate, epsilon=settings.adam_epsilon, clip=settings.gradient_clip, compiled=compiled
    )
    stack = FleetStack(models[0], compiled)
    return TrainingStep(
        stack, fleet, split, adam, batch_size=settings.batch_size, precision=precision, error=squared_error
    )


def load(engine: TrainingStep, num_steps: int = 2) -> np.ndarray:
    index = draw(SEEDS, 0, num_steps, engine.batch_size, len(engine.split))
    engine.load(group_by_size(index, engine.split.host_num_nodes, engine.buckets))
    return index


@pytest.mark.parametrize("name", ["rt", "gcn", "gat"])
def test_groups_add_up_to_the_gradient_of_each_seeds_mean_squared_error(name: ModelName):
    engine = make_engine(name)
    index = load(engine)
    for num_nodes in engine.num_nodes[0]:
        engine._add_group(num_nodes)
    for number, seed in enumerate(SEEDS):
        model = initialise(lambda: build_model(name, SMALL[name]), seed).double()
        graphs, distances = engine.split.gather(torch.from_numpy(index[0, number]), int(engine.buckets[-1]))
        loss = (model(graphs) - distances).square().mean()
        loss.backward()
        torch.testing.assert_close(engine.step_losses[number], loss.detach())
        gradients = engine.fleet.split(engine.gradient)
        for key, parameter in model.named_parameters():
            expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad  # edges end unread
            torch.testing.assert_close(gradients[key][number], expected)


def test_recomputing_layers_changes_no_number():
    plain, saving = make_engine(), make_engine()
    for engine in (plain, saving):
        load(engine)
    plain.recompute, saving.recompute = False, True
    saving.stack.recompute = True
    for engine in (plain, saving):
        engine.make(0)
        engine.make(1)
    assert torch.equal(plain.fleet.values, saving.fleet.values)
    assert torch.equal(plain.losses, saving.losses)


def test_layers_are_recomputed_where_memory_is_short(monkeypatch):
    engine = make_engine()
    load(engine)
    assert engine._must_recompute() is False
    monkeypatch.setattr("relational_transformer.fleet.graphs.usable_bytes", lambda device: 1_000)
    assert engine._must_recompute() is True


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # dynamo looks at all inputs
def test_a_traced_layer_trains_like_the_plain_one(monkeypatch):
    """What the compiler sees is one graph, the same for all layers; its code generator is not at stake here."""
    graphs = []

    def note(graph, inputs):
        graphs.append(graph)
        return graph

    torch.compiler.reset()
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=note))
    traced, plain = make_engine(compiled=True), make_engine()
    for engine in (traced, plain):
        load(engine)
        engine.recompute = False
        engine.make(0)
    torch.testing.assert_close(traced.fleet.values, plain.fleet.values)
    assert len(graphs) == len(set(traced.num_nodes[0])) + 2  # a layer for each bucket of nodes, Adam's count and update


@pytest.mark.parametrize("sizes", [(30, 4, 5), (40, 4, 20)])  # one bucket, several
def test_memory_is_looked_at_however_few_buckets_there_are(monkeypatch, sizes: tuple[int, int, int]):
    seen = []
    monkeypatch.setattr(step_module, "is_too_much_to_keep", lambda needed, device: seen.append(needed) or False)
    engine = make_engine(sizes=sizes)
    load(engine)
    assert engine._must_recompute() is False
    largest = saved_bytes(lambda: engine._forward(engine.buckets[-1]))
    assert seen == [pytest.approx(largest, rel=0.2)]


def test_distances_are_told_in_float32_where_layers_compute_in_bfloat16():
    engine = make_engine(precision="bf16")
    load(engine)
    values = engine.fleet.values.bfloat16()
    predictions = engine.stack(engine.fleet.split(values), engine.split.gather(engine.index[0], 24)[0])
    assert predictions.dtype == torch.float32
    assert not torch.equal(predictions, predictions.bfloat16().float())


def test_bfloat16_trains_about_as_float32_does():
    losses = []
    for precision in ("fp32", "bf16"):
        engine = make_engine(precision=precision)
        load(engine)
        engine.make(0)
        losses.append(engine.losses)
        assert engine.fleet.values.dtype == torch.float32
    torch.testing.assert_close(losses[1], losses[0], rtol=0.05, atol=0.0)
