"""A trained run, loaded again."""

from collections.abc import Callable
from pathlib import Path

import torch

from relational_transformer.fleet.over_seeds import Parameters
from relational_transformer.fleet.precision import set_precision
from relational_transformer.reasoning.build import build_network
from relational_transformer.reasoning.network import Network
from relational_transformer.runs.checkpoint import read_best
from relational_transformer.runs.run_folder import RunFolder

from .config import Protocol, TrainConfig
from .data import load_split, make_split
from .evaluation import Evaluator


def load_best(folder: RunFolder) -> tuple[TrainConfig, Parameters, list[bool]]:
    """The configuration of a run, the best parameters of its seeds, [S, *shape] by name, and which did not fail."""
    config = TrainConfig.from_dict(folder.read_config())
    best, others = read_best(folder)
    return config, best, others["finite"].tolist()


def load_network(run: Path | str, seed: int | None = None) -> Network:
    """The trained network of one seed of the run in a folder (the first seed, unless one is named).

    >>> network = load_network("/no/such/run", seed=7)
    Traceback (most recent call last):
    ValueError: /no/such/run is no run folder: it has no config.json
    """
    folder = RunFolder(run)
    config, parameters, _ = load_best(folder)
    seed = config.seeds[0] if seed is None else seed
    if seed not in config.seeds:
        raise ValueError(f"the run in {folder.path} has the seeds {list(config.seeds)}, not {seed}")
    network = build_network(config.task, config.settings)
    number = config.seeds.index(seed)
    network.load_state_dict({name: tensor[number] for name, tensor in parameters.items()})
    return network


def evaluate_run(
    folder: RunFolder, device: torch.device, change: Callable[[Protocol], Protocol] = lambda protocol: protocol
) -> tuple[TrainConfig, list[float | None]]:
    """Test scores of every seed of a run, under its own protocol or a changed one; None of a seed that failed."""
    config, parameters, finite = load_best(folder)
    network = build_network(config.task, config.settings).to(device)
    set_precision(config.precision, network)
    split = load_split(network, make_split(config.task, "test", change(config.protocol)), device)
    evaluator = Evaluator(network, split, len(config.seeds), config.precision)
    scores = evaluator.scores({name: tensor.to(device) for name, tensor in parameters.items()})
    return config, [score if is_finite else None for score, is_finite in zip(scores.tolist(), finite, strict=True)]
