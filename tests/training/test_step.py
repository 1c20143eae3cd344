"""A training step: what it reads, and that compiled pieces make the same of it."""

import pytest
import torch

from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.fleet import Fleet, initialise
from relational_transformer.reasoning.build import build_network
from relational_transformer.training import Protocol
from relational_transformer.training.data import Draw, draw, load_split, make_split
from relational_transformer.training.step import TrainingStep, linears_of_encoders
from tests.training.small import SETTINGS

CPU = torch.device("cpu")
SEEDS = (0, 1)
BATCH = 2


def make_engine(task: str = "insertion_sort", compiled: bool = False) -> TrainingStep:
    models = [initialise(lambda: build_network(task, SETTINGS), seed).double() for seed in SEEDS]
    split = load_split(models[0], make_split(task, "train", Protocol(train_examples=12, train_nodes=5)), CPU)
    fleet = Fleet(models, CPU)
    adam = Adam(fleet, 0.01, linears=linears_of_encoders(models[0]), compiled=compiled)
    engine = TrainingStep(models[0], fleet, split, adam, batch_size=BATCH, precision="fp64", compiled=compiled)
    engine.recompute = False
    return engine


def make_draw(engine: TrainingStep, num_steps: int, part: int = 0) -> Draw:
    return draw(SEEDS, part, num_steps, BATCH, len(engine.split), engine.split.num_steps - 1, 0.5)


@pytest.mark.parametrize("task", ["bfs", "insertion_sort"])
@pytest.mark.parametrize("shorter_by", [0, 1])
def test_a_step_is_made_of_the_examples_that_were_drawn(task: str, shorter_by: int, monkeypatch):
    engine = make_engine(task)
    drawn = make_draw(engine, 2)
    engine.load(drawn)
    engine.position += 1
    given = []
    monkeypatch.setattr(engine, "loss", lambda values, batch, steps: given.append((batch, steps)))
    num_hints = engine.split.num_steps - shorter_by
    engine._forward(num_hints)
    ((batch, steps),) = given
    index = torch.from_numpy(drawn.index[1])
    expected = engine.split.gather(index, engine.split.num_steps)
    assert len(steps) == num_hints - 1
    for seed in range(len(SEEDS)):
        alone = expected._replace(
            inputs={}, outputs={}, hints={key: hint[:, seed] for key, hint in expected.hints.items()},
            lengths=expected.lengths[seed],
        )  # fmt: skip
        noise = torch.from_numpy(drawn.teacher_forced[1, :, seed])
        for ours, theirs in zip(steps, engine.network.steps(alone, noise), strict=False):
            for name in ("teacher_forced", "is_target", "keeps_output"):
                assert torch.equal(getattr(ours, name)[seed], getattr(theirs, name)), name
            for name in ("hints", "next_hints", "totals"):
                for key, tensor in getattr(theirs, name).items():
                    assert torch.equal(getattr(ours, name)[key][seed], tensor), (name, key)
    for key, tensor in expected.inputs.items():
        assert torch.equal(batch.inputs[key], tensor)
    for key, tensor in expected.outputs.items():
        assert torch.equal(batch.outputs[key], tensor)


def test_fewer_steps_than_before_are_loaded_into_the_same_tensors():
    """So nothing is captured or compiled again for the last part of a run."""
    engine = make_engine()
    engine.load(make_draw(engine, 3))
    addresses = engine.index.data_ptr(), engine.teacher_forced.data_ptr()
    fewer = make_draw(engine, 2, part=1)
    kept = fewer.index.copy()
    engine.load(fewer)
    assert (engine.index.data_ptr(), engine.teacher_forced.data_ptr()) == addresses
    assert (engine.index[:2].numpy() == kept).all()
    assert (engine.teacher_forced[:2].numpy() == fewer.teacher_forced).all()
    assert len(engine.hints_of_step) == 2
    engine.load(make_draw(engine, 3, part=2))
    assert (fewer.index == kept).all(), "a draw belongs to who made it"


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch's compiler looks at it
def test_compiled_pieces_train_as_the_plain_step_whatever_the_number_of_hints(traced):
    plain, compiled = make_engine(), make_engine(compiled=True)
    most = plain.split.num_steps
    for engine in (plain, compiled):
        engine.load(make_draw(engine, 3))
        engine._train(most)
    # Examples, encoded inputs, a step of the algorithm, the loss, Adam's count and update, tally.
    assert len(traced) == 7
    for engine in (plain, compiled):
        engine._train(most - 1)
        engine._train(most)
    assert len(traced) == 7, "steps of another number of hints, or the next ones, are compiled again"
    for name, tensor in plain.changed().items():
        # Biases before a softmax have gradients of rounding alone, which Adam makes steps of: hence not 1e-12.
        torch.testing.assert_close(
            compiled.changed()[name], tensor, rtol=1e-8, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}"
        )
    assert plain.position.item() == 3
    assert plain.losses.gt(0).all()
