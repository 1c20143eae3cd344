"""Engines of small networks whose steps share what they can, and what they give."""

from dataclasses import replace

import torch

from relational_transformer.processors.settings import find_settings
from relational_transformer.reasoning.build import build_network
from relational_transformer.training import Protocol
from relational_transformer.training.data import draw, load_split
from relational_transformer.training.engine import Engine
from relational_transformer.training.fleet import Fleet, initialise
from relational_transformer.training.precision import Precision, set_precision
from relational_transformer.training.splits import make_split

CPU = torch.device("cpu")
NODES = 5
BATCH = 2
SMALL = {"hidden_size": 12, "num_heads": 2, "num_layers": 2, "node_hidden_size": 6, "edge_hidden_sizes": (4, 3)}


def make_engine(
    model: str, task: str, seeds: tuple[int, ...] = (0, 1, 2), precision: Precision = "fp64", teacher_forcing=0.5
) -> Engine:
    """An engine that takes itself for a compiled one."""
    settings = replace(find_settings(model), **SMALL)
    models = [initialise(lambda: build_network(task, settings), seed) for seed in seeds]
    for one in models:
        set_precision(precision, one)
    split = load_split(models[0], make_split(task, "train", Protocol(train_examples=12, train_nodes=NODES)), CPU)
    made = Engine(
        models[0], Fleet(models, CPU), split,
        learning_rate=0.01, batch_size=BATCH, precision=precision, compiled=False, recompute=False,
    )  # fmt: skip
    made._methods.compiled = True
    made.load(draw(seeds, 0, 1, BATCH, len(split), split.num_steps - 1, teacher_forcing))
    return made


def loss_and_gradient(engine: Engine, num_hints: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    losses, values = engine._forward(min(num_hints, engine.split.num_steps))
    return losses.detach(), torch.autograd.grad(losses, values, torch.arange(1.0, len(losses) + 1).to(losses))[0]
