"""The cost of a run of Sokoban."""

from functools import cache

import torch

from relational_transformer.runs.task import FORWARD_AND_BACKWARD, count, without_values

from .agent import Agent, Memo, Model
from .config import SokobanConfig
from .game.observation import CORE_SIZE, FACTOR_SIZE, Observation
from .settings import AgentSettings

OPEN_CELLS = 33
"""The mean number of open cells of a level."""


def flop(config: SokobanConfig) -> float:
    """Floating-point operations of a run with all its seeds, without its test and without padding.

    A window of steps takes one more forward pass, for the value after it.
    """
    recipe = config.recipe
    forward_passes = recipe.steps * (FORWARD_AND_BACKWARD + 1 / recipe.window)
    return len(config.seeds) * forward_passes * flop_of_step(config.model, config.settings)


@cache
def flop_of_step(model: Model, settings: AgentSettings) -> int:
    """Floating-point operations of one forward pass of the agent on one observation."""
    agent = without_values(lambda: Agent(model, settings))
    observation = Observation(
        torch.zeros(1, CORE_SIZE), torch.zeros(1, OPEN_CELLS, FACTOR_SIZE), torch.ones(1, OPEN_CELLS, dtype=torch.bool)
    )
    memo = Memo(torch.zeros(1, settings.memo_size), torch.ones(1, dtype=torch.bool))
    return count(lambda: agent(observation, memo))
