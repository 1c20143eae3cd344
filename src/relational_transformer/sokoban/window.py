"""The steps of a window outside the agent, as functions of tensors that are compiled as a whole."""

from typing import NamedTuple

import torch
from torch import Tensor

from .chance import Draw, sample
from .game.environment import Environment
from .game.observation import Observation
from .game.rules import Board
from .loss import Window, actor_critic_loss
from .settings import Recipe


class Beginning(NamedTuple):
    """The first observation of a window, [S, B, ...], and the random numbers of every step: `uniform` [S, B] and
    `next_level` [S · B]."""

    seen: Observation
    uniform: list[Tensor]
    next_level: list[Tensor]


class Played(NamedTuple):
    """A step of all games: the boards after it [S · B], where ended games have been restarted, and [S, B, ...] the next
    observation, the action, its reward, and whether the game ended, was solved, or continues."""

    board: Board
    seen: Observation
    action: Tensor
    reward: Tensor
    done: Tensor
    solved: Tensor
    goes_on: Tensor


def begin(environment: Environment, board: Board, draw: Draw, position: Tensor, num_seeds: int) -> Beginning:
    """The beginning of window number `position` [1] of those drawn."""
    seen = by_seed(environment.observer.observe(board), num_seeds)
    uniform, next_level = (drawn.index_select(0, position).squeeze(0).unbind() for drawn in draw)
    # Separate tensors: slices of a larger one would be unaligned.
    return Beginning(seen, [one.clone() for one in uniform], [one.flatten().clone() for one in next_level])


def play(environment: Environment, board: Board, logits: Tensor, uniform: Tensor, next_level: Tensor) -> Played:
    """Sample an action for every game from `logits` [S, B, 5] and make it."""
    num_seeds = len(logits)
    action = sample(logits.log_softmax(-1).exp(), uniform)
    board, seen, reward, done, solved = environment.turn(board, action.flatten(), next_level)
    reward, done, solved = (one.unflatten(0, (num_seeds, -1)) for one in (reward, done, solved))
    return Played(board, by_seed(seen, num_seeds), action, reward, done, solved, ~done)


def losses_of_window(
    logits: list[Tensor], value: list[Tensor], played: list[Played], value_after: Tensor, recipe: Recipe
) -> Tensor:
    """The loss of every seed, [S], from the policy's logits, the value and the games of each step."""
    action, reward, done = (
        torch.stack([getattr(step, name) for step in played]) for name in ("action", "reward", "done")
    )
    window = Window(torch.stack(logits).log_softmax(-1), action, torch.stack(value), reward, done)
    return actor_critic_loss(window, value_after, recipe)


def totals(played: list[Played]) -> tuple[Tensor, Tensor, Tensor]:
    """For every seed the raw reward of a window, the games that ended and those that were solved, float64 [S] each."""
    names = ("reward", "done", "solved")
    rewards, finished, solved = (torch.stack([getattr(step, name) for step in played]) for name in names)
    return rewards.double().sum((0, 2)), finished.double().sum((0, 2)), solved.double().sum((0, 2))


def by_seed(seen: Observation, num_seeds: int) -> Observation:
    """[S · B, ...] -> [S, B, ...]."""
    return Observation(*(one.unflatten(0, (num_seeds, -1)) for one in seen))
