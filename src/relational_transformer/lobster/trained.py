"""A trained run, loaded again and scored on graphs of any size."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from relational_transformer.fleet.over_seeds import Parameters
from relational_transformer.fleet.precision import set_matrix_products
from relational_transformer.runs.checkpoint import read_best
from relational_transformer.runs.run_folder import RunFolder

from .build import build_model
from .config import LobsterConfig
from .data import load_split
from .evaluation import Evaluator, check_memory
from .model import LobsterModel
from .protocol import LobsterProtocol
from .stack import FleetStack


@dataclass(frozen=True)
class Scores:
    """Relative losses of every seed of a run, None of a seed that failed, and the distances of the graphs."""

    config: LobsterConfig
    losses: list[float | None]
    distances: np.ndarray


def load_best(folder: RunFolder) -> tuple[LobsterConfig, Parameters, list[bool]]:
    """The configuration of a run, the best parameters of its seeds, [S, *shape] by name, and which did not fail."""
    config = LobsterConfig.from_dict(folder.read_config())
    best, others = read_best(folder)
    return config, best, (others["finite"] & others["best_losses"].isfinite()).tolist()


def load_model(run: Path | str, seed: int | None = None) -> LobsterModel:
    """The trained model of one seed of the run in a folder (the first seed, unless one is named).

    >>> model = load_model("runs/lobster-rt", seed=3)  # doctest: +SKIP
    """
    folder = RunFolder(run)
    config, parameters, _ = load_best(folder)
    seed = config.seeds[0] if seed is None else seed
    if seed not in config.seeds:
        raise ValueError(f"the run in {folder.path} has the seeds {list(config.seeds)}, not {seed}")
    model = build_model(config.model, config.settings)
    own = {name: tensor[config.seeds.index(seed)] for name, tensor in parameters.items()}
    model.to(next(iter(own.values())).dtype).load_state_dict(own)
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
    config, parameters, finite = load_best(folder)
    set_matrix_products(config.precision)
    graphs = change(config.protocol).test_graphs()
    check_memory(config.model, int(graphs.num_nodes.max()), config.precision, device)
    model = build_model(config.model, config.settings).to(device)
    stack = FleetStack(model, compiled=False)
    evaluator = Evaluator(stack, load_split(graphs, device), len(config.seeds), config.precision)
    losses = evaluator.relative_losses({name: tensor.to(device) for name, tensor in parameters.items()}).tolist()
    good = [loss if ok and math.isfinite(loss) else None for loss, ok in zip(losses, finite, strict=True)]
    return Scores(config, good, graphs.distances)
