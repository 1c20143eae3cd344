"""Training with the layers as kernels between compiled pieces: the same gradients as the whole step in one piece."""

from dataclasses import replace

import pytest
import torch

from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.fleet import Fleet, initialise
from relational_transformer.fleet.precision import set_precision
from relational_transformer.nn import kernels
from relational_transformer.processors.settings import find_settings
from relational_transformer.reasoning.build import build_network
from relational_transformer.training import Protocol
from relational_transformer.training.data import draw, load_split, make_split
from relational_transformer.training.step import TrainingStep
from tests.nn.kernels.whole_layer.emulation import COMPILER, emulator_in_use

CPU = torch.device("cpu")
SEEDS = (0, 1)


def make_engine(precision="bf16", task="bfs", model="rt", num_layers=1, compiled=False, **settings) -> TrainingStep:
    settings = replace(find_settings(model), num_layers=num_layers, batch_size=2, **settings)
    nodes = 4 if task == "matrix_chain_order" else 5  # pointers of edges take time with the cube of it
    models = [initialise(lambda: build_network(task, settings), seed) for seed in SEEDS]
    for model in models:
        set_precision(precision, model)
    split = load_split(models[0], make_split(task, "train", Protocol(train_examples=8, train_nodes=nodes)), CPU)
    fleet = Fleet(models, CPU)
    adam = Adam(fleet, 1e-3, compiled=compiled)
    engine = TrainingStep(models[0], fleet, split, adam, batch_size=2, precision=precision, compiled=compiled)
    # True hints throughout: the model's own are decisions, which rounding can turn.
    engine.load(draw(SEEDS, 0, 1, 2, len(split), split.num_steps - 1, 1.0))
    engine.recompute = False
    return engine


def loss_and_gradient(engine: TrainingStep) -> tuple[torch.Tensor, torch.Tensor]:
    losses, values = engine._forward(engine.hints_of_step[0])
    return losses.detach(), torch.autograd.grad(losses.sum(), values)[0]


@pytest.fixture
def _emulator():
    with emulator_in_use():
        yield


@pytest.mark.skipif(COMPILER is None, reason="the emulator needs g++ on x86-64")
@pytest.mark.usefixtures("_emulator")
@pytest.mark.parametrize(
    ("task", "model", "num_layers"),
    [
        *(("bfs", "rt", 1), ("bfs", "rt_core", 1), ("insertion_sort", "rt", 1)),
        *(("segments_intersect", "rt", 1), ("segments_intersect", "rt_core", 1)),  # read off maxima over nodes
        ("matrix_chain_order", "rt", 1),  # pointers of edges
        *(("bfs", "rt_no_edge_updates", 2), ("matrix_chain_order", "rt_no_edge_updates", 1)),
    ],
)
def test_a_step_cut_at_its_layers_is_as_close_to_float64_as_the_whole(task, model, num_layers):
    with kernels.use_kernels(False):
        exact = make_engine("fp64", task, model, num_layers)
        true_losses, true_gradient = loss_and_gradient(exact)
    engine = make_engine("bf16", task, model, num_layers)
    with kernels.use_kernels(True):
        assert engine.layers_are_kernels
        losses, gradient = loss_and_gradient(engine)
        engine.recompute = True  # the whole step in one piece, through the same kernels where a layer is one
        _, of_whole = loss_and_gradient(engine)
    torch.testing.assert_close(losses.double(), true_losses, rtol=0.01, atol=0.0)
    found, whole, true = (engine.fleet.split(vector) for vector in (gradient, of_whole, true_gradient))
    for name in found:
        error, allowed = ((blocks[name] - true[name]).norm() for blocks in (found, whole))
        # A ReLU that rounding turns on or off is worth a few per cent in so small a batch.
        assert error <= 2 * allowed + 0.05 * true[name].norm() + 1e-3, name


@pytest.mark.skipif(COMPILER is None, reason="the emulator needs g++ on x86-64")
@pytest.mark.usefixtures("_emulator")
def test_it_is_for_the_papers_model_in_bfloat16_with_kernels_turned_on():
    with kernels.use_kernels(True):
        assert make_engine().layers_are_kernels
        assert not make_engine("fp32").layers_are_kernels
        assert not make_engine(node_hidden_size=64).layers_are_kernels
        assert make_engine(model="rt_no_edge_updates").layers_are_kernels
        assert not make_engine(model="transformer").layers_are_kernels
        assert not make_engine(model="deep_sets").layers_are_kernels
    with kernels.use_kernels(False):
        engine = make_engine()
        assert not engine.layers_are_kernels
        assert engine._fused is not None
        assert engine._fused.kept_bytes(3, 2) == 0


@pytest.mark.skipif(COMPILER is None, reason="the emulator needs g++ on x86-64")
@pytest.mark.usefixtures("_emulator")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch's compiler looks at it
def test_the_pieces_between_layers_are_compiled_once_for_all_steps(traced):
    """Edges that no layer updates leave a step as they came, and are to the compiler as those that come in first."""
    engine, plain = (make_engine(model="rt_no_edge_updates", compiled=compiled) for compiled in (True, False))
    with kernels.use_kernels(True):
        assert engine.hints_of_step[0] > 2
        found, expected = loss_and_gradient(engine), loss_and_gradient(plain)
    assert len(traced) == 5  # examples, parameters laid out, begin, between, leave
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0.02, atol=0.02 * other.abs().max().item())
