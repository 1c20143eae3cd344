"""Loads the agents of a trained run, and plays levels with them."""

from pathlib import Path

import torch
from torch import Tensor

from relational_transformer.fleet.precision import for_computing, set_matrix_products
from relational_transformer.runs.checkpoint import load_trained
from relational_transformer.runs.run_folder import RunFolder

from .agent import Agent, Memo
from .chance import test_noise
from .config import SokobanConfig
from .evaluation import Player, choose_action, no_memo, solved_levels, tests_compiled
from .game.environment import Environment
from .game.levels import Levels, load_levels
from .game.rules import TIME_LIMIT
from .splits import remembered_folder
from .task import SokobanTask


def load_agent(run: Path | str, seed: int | None = None) -> Agent:
    """The agent of one seed of the run in a folder (the first that did not fail, unless one is named), with its best
    parameters in the precision that they are tested in.

    >>> agent = load_agent("runs/sokoban-rt-batched")  # doctest: +SKIP
    """
    return load_seed(run, seed)[1]


def load_seed(run: Path | str, seed: int | None = None) -> tuple[int, Agent]:
    """The chosen seed, and its agent as `load_agent` returns it."""
    trained = load_trained(SokobanTask, run)
    number, config = trained.number_of(seed), trained.config
    agent = trained.model_of(number)
    return config.seeds[number], agent.bfloat16() if config.precision == "bf16" else agent


def levels_of_run(folder: RunFolder, split: str = "test", elsewhere: Path | str | None = None) -> Levels:
    """The test levels of a run, or another split of their folder; or the levels of a folder `elsewhere`. If that folder
    begins with the run's test levels, only these are taken."""
    config = folder.read_config(SokobanConfig.from_dict)
    if elsewhere is not None:
        levels = load_levels(elsewhere, split)
        if split == "test" and config.levels is not None:
            first = levels[: config.levels.test]
            levels = first if first.digest == config.levels.test_digest else levels
        return levels
    place = remembered_folder(folder)
    if split == "test":
        return config.load("test", place)
    if config.levels is None or place is None:
        raise ValueError(f"the run in {folder.path} has no folder of levels with a split {split!r}: add --levels")
    return load_levels(place, split)


def evaluate_run(folder: RunFolder, device: torch.device, levels: Levels) -> dict[int, tuple[float, float] | None]:
    """The shares of `levels` that each seed of a run solves, with sampled and with the most probable actions; None for
    a seed that failed.

    >>> shares = evaluate_run(RunFolder("runs/sokoban-rt-batched"), torch.device("cpu"), levels)  # doctest: +SKIP
    """
    trained = load_trained(SokobanTask, folder)
    config = trained.config
    set_matrix_products(config.precision)
    agent, levels = config.build().to(device), levels.to(device)
    shares: dict[int, tuple[float, float] | None] = dict.fromkeys(config.seeds)
    played = [number for number in range(len(config.seeds)) if trained.good[number]]
    players = []
    for number in played:
        own = {name: for_computing(one[number].to(device), config.precision) for name, one in trained.best.items()}
        noise = test_noise(config.seeds[number], TIME_LIMIT, len(levels)).to(device)
        players += [Player(own, noise), Player(own, None)]
    if players:
        compiled = tests_compiled(config.compile, device)
        solved = solved_levels(agent, players, levels, compiled=compiled).double().mean(1).tolist()
        for place, number in enumerate(played):
            shares[config.seeds[number]] = solved[2 * place], solved[2 * place + 1]
    return shares


@torch.no_grad()
def agent_actions(agent: Agent, level: Levels, uniform: Tensor | None) -> list[int]:
    """The actions of an agent on the first level of `level` until the game ends.

    Args:
        uniform: numbers in [0, 1) to sample with, [120]; None for the most probable actions.
    """
    environment = Environment(level, torch.tensor([0]))
    memo = no_memo(agent, 1, torch.device("cpu"))
    actions = []
    for step in range(TIME_LIMIT):
        decision = agent(environment.observe(), memo)
        action = choose_action(decision.logits, None if uniform is None else uniform[step : step + 1])
        actions.append(int(action))
        if environment.step(action).done:
            break
        memo = Memo(decision.memo, torch.tensor([True]))
    return actions
