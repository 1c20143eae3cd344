"""Training with the layers as kernels between compiled pieces: the same gradients as the whole step in one piece."""

from dataclasses import replace

import pytest
import torch

from relational_transformer.nn import kernels
from relational_transformer.nn.kernels.whole_layer import launching
from relational_transformer.processors.settings import TUNED
from relational_transformer.reasoning.build import build_network
from relational_transformer.training import Protocol
from relational_transformer.training.data import draw, load_split
from relational_transformer.training.engine import Engine
from relational_transformer.training.fleet import Fleet, initialise
from relational_transformer.training.precision import set_precision
from relational_transformer.training.splits import make_split
from tests.nn.kernels.whole_layer.emulation import COMPILER, emulated

CPU = torch.device("cpu")
SEEDS = (0, 1)


def make_engine(precision="bf16", **settings) -> Engine:
    settings = replace(TUNED["rt"], num_layers=2, batch_size=2, **settings)
    models = [initialise(lambda: build_network("bfs", settings), seed) for seed in SEEDS]
    set_precision(precision, models[0])
    split = load_split(models[0], make_split("bfs", "train", Protocol(train_examples=8, train_nodes=5)), CPU)
    engine = Engine(
        models[0], Fleet(models, CPU), split, learning_rate=1e-3, batch_size=2, precision=precision, compiled=False
    )
    engine.load(draw(SEEDS, 0, 1, 2, len(split), split.num_steps - 1, 0.5))
    return engine


def loss_and_gradient(engine: Engine) -> tuple[torch.Tensor, torch.Tensor]:
    losses, values = engine._forward(engine.hints_of_step[0])
    return losses.detach(), torch.autograd.grad(losses.sum(), values)[0]


@pytest.fixture
def _emulator():
    launching.set_emulator(emulated())
    yield
    launching.set_emulator(None)


@pytest.mark.skipif(COMPILER is None, reason="the emulator needs g++ on x86-64")
@pytest.mark.usefixtures("_emulator")
@pytest.mark.parametrize("global_mode", ["cat", "core"])
def test_a_step_cut_at_its_layers_has_the_gradient_of_the_whole(global_mode):
    engine = make_engine(global_mode=global_mode)
    with kernels.use_kernels(True):
        assert engine._around.fits
        losses, gradient = loss_and_gradient(engine)
        engine.recompute = True  # the whole step in one piece, through the same kernels
        expected_losses, expected = loss_and_gradient(engine)
    torch.testing.assert_close(losses, expected_losses, rtol=0.01, atol=0.0)
    found, wanted = engine.fleet.split(gradient), engine.fleet.split(expected)
    for name in found:
        assert (found[name] - wanted[name]).norm() <= 0.05 * wanted[name].norm() + 1e-6, name


@pytest.mark.skipif(COMPILER is None, reason="the emulator needs g++ on x86-64")
@pytest.mark.usefixtures("_emulator")
def test_it_is_for_the_papers_model_in_bfloat16_with_kernels_turned_on():
    with kernels.use_kernels(True):
        assert make_engine()._around.fits
        assert not make_engine("fp32")._around.fits
        assert not make_engine(node_hidden_size=64)._around.fits
        assert not make_engine(update_edges=False)._around.fits
    with kernels.use_kernels(False):
        assert not make_engine()._around.fits
        assert make_engine()._around.kept_bytes(3, 2) == 0
