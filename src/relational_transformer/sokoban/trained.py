"""A trained run, loaded again, and what its agent does on a level."""

from pathlib import Path

import torch
from torch import Tensor

from relational_transformer.training.checkpoint import load_checkpoint
from relational_transformer.training.run_folder import RunFolder

from .agent import Agent, Memo
from .config import SokobanConfig
from .environment import Environment
from .evaluation import choose_action, no_memo
from .levels import Levels
from .rules import TIME_LIMIT


def load_agent(run: Path | str, seed: int | None = None) -> Agent:
    """The agent of one seed of the run in a folder (the first seed, unless one is named), with its best parameters.

    >>> agent = load_agent("runs/sokoban-rt")  # doctest: +SKIP
    """
    folder = RunFolder(run)
    config = SokobanConfig.from_dict(folder.read_config())
    found = load_checkpoint(folder)
    if found is None:
        raise ValueError(f"{folder.path} has no checkpoint that can be read")
    seed = config.seeds[0] if seed is None else seed
    if seed not in config.seeds:
        raise ValueError(f"the run in {folder.path} has the seeds {list(config.seeds)}, not {seed}")
    number, prefix = config.seeds.index(seed), "best."
    best = {name.removeprefix(prefix): tensor for name, tensor in found[0].items() if name.startswith(prefix)}
    agent = config.build()
    agent.load_state_dict({name: tensor[number] for name, tensor in best.items()})
    return agent


@torch.no_grad()
def agent_actions(agent: Agent, level: Levels, uniform: Tensor | None) -> list[int]:
    """The actions of an agent on the first of `level` until the game ends.

    Args:
        uniform: numbers in [0, 1) to sample with, [120]; None takes the most probable action every time.
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
