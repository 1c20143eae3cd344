"""The score as WMG takes it: every level is played once, and counts if it is solved within the time limit."""

import torch
from torch import Tensor
from torch.func import functional_call

from .agent import Agent, Decision, Memo
from .chance import sample
from .environment import Environment
from .levels import Levels
from .rules import TIME_LIMIT
from .size_classes import node_capacity

LEVELS_AT_ONCE = 250


@torch.no_grad()
def solved_levels(agent: Agent, parameters: dict[str, Tensor], levels: Levels, uniform: Tensor | None) -> Tensor:
    """Which levels the agent solves, bool [M]. They are played by size, so that few nodes are padded.

    Args:
        parameters: those to play with, by name.
        uniform: numbers in [0, 1) to sample the actions with, [120, M]; None takes the most probable action.
    """
    device = levels.agent.device
    solved = torch.zeros(len(levels), dtype=torch.bool, device=device)
    for numbers in levels.num_open.argsort(stable=True).split(LEVELS_AT_ONCE):
        played = levels[numbers]
        environment = Environment(played, torch.arange(len(played), device=device), node_capacity(played.open_cells))
        memo = no_memo(agent, len(played), device)
        ever_solved, playing = torch.zeros_like(memo.kept), torch.ones_like(memo.kept)
        for step in range(TIME_LIMIT):
            observation = environment.observe()
            decision: Decision = functional_call(agent, parameters, (observation, memo))
            action = choose_action(decision.logits, None if uniform is None else uniform[step, numbers])
            outcome = environment.step(action)
            ever_solved |= outcome.solved & playing
            playing &= ~outcome.done
            memo = Memo(decision.memo, torch.ones_like(memo.kept))
            if step % 10 == 9 and not playing.any():
                break
        solved[numbers] = ever_solved
    return solved


def choose_action(logits: Tensor, uniform: Tensor | None) -> Tensor:
    """Actions [B] from logits [B, 5]: sampled with `uniform` [B], or the most probable ones."""
    return logits.argmax(-1) if uniform is None else sample(logits.softmax(-1), uniform)


def no_memo(agent: Agent, games: int, device: torch.device) -> Memo:
    """The memo before the first step of a game: none."""
    return Memo(
        torch.zeros(games, agent.settings.memo_size, device=device),
        torch.zeros(games, dtype=torch.bool, device=device),
    )
