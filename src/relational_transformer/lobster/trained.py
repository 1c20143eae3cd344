"""Loads a trained run, and tests it on graphs of any size."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from relational_transformer.fleet.precision import set_matrix_products
from relational_transformer.regression.evaluation import Evaluator
from relational_transformer.regression.model import LayeredModel
from relational_transformer.regression.stack import FleetStack
from relational_transformer.runs.checkpoint import load_trained
from relational_transformer.runs.run_folder import RunFolder

from .config import LobsterConfig
from .data import load_split
from .memory import check_memory
from .models.build import build_model
from .protocol import LobsterProtocol
from .task import LobsterTask, relative_error


@dataclass(frozen=True)
class Scores:
    """The relative losses of every seed of a run, None for a seed that failed, and the distances of the graphs."""

    config: LobsterConfig
    losses: list[float | None]
    distances: np.ndarray


def load_model(run: Path | str, seed: int | None = None) -> LayeredModel:
    """The trained model of one seed of the run in a folder (the first that did not fail, unless one is
    named).

    >>> model = load_model("runs/lobster-rt", seed=3)  # doctest: +SKIP
    """
    trained = load_trained(LobsterTask, run)
    own = trained.parameters_of(trained.number_of(seed))
    model = LobsterTask(trained.config).build().to(next(iter(own.values())).dtype)
    model.load_state_dict(own)
    return model


def evaluate_run(
    folder: RunFolder,
    device: torch.device,
    change: Callable[[LobsterProtocol], LobsterProtocol] = lambda protocol: protocol,
) -> Scores:
    """Test scores of every seed of a run, under its own protocol or a changed one.

    >>> def far(protocol: LobsterProtocol) -> LobsterProtocol:
    ...     return replace(protocol, test_size=500)
    >>> scores = evaluate_run(RunFolder("runs/lobster-rt"), torch.device("cuda"), far)  # doctest: +SKIP
    """
    _, config, parameters, finite = load_trained(LobsterTask, folder)
    set_matrix_products(config.precision)
    graphs = change(config.protocol).test_graphs()
    check_memory(config.model, int(graphs.num_nodes.max()), config.precision, device)
    model = build_model(config.model, config.settings).to(device)
    stack = FleetStack(model, compiled=False)
    evaluator = Evaluator(stack, load_split(graphs, device), len(config.seeds), config.precision, relative_error)
    losses = evaluator.mean_errors({name: tensor.to(device) for name, tensor in parameters.items()}).tolist()
    good = [loss if ok and math.isfinite(loss) else None for loss, ok in zip(losses, finite, strict=True)]
    return Scores(config, good, graphs.distances)
