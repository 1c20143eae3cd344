"""WMG's score: every level is played once, and counts if it is solved within the time limit."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from relational_transformer.fleet.compiling import CompileMode, should_compile
from relational_transformer.fleet.pieces import Parameters

from .agent import Agent, Memo
from .chance import sample
from .fleet_agent import FleetAgent
from .game.environment import Environment
from .game.levels import Levels
from .game.rules import TIME_LIMIT
from .game.size_classes import NODES_BESIDE_FACTORS, size_classes
from .window import by_seed

PAIRS_AT_ONCE = {"cuda": 3_500_000, "cpu": 200_000}
"""Pairs of nodes of all players in one batch: enough to fill the device, few enough for its memory. RT needs 6 kB per
pair in float32, measured on a CPU."""
SHARES = 8
"""Levels are cut into two classes by size, at a multiple of an eighth, so that there is little padding and few shapes
are compiled."""
STEPS_BETWEEN_LOOKS = 10
"""Steps between two checks whether all games have ended; a check waits for the device."""


class Player(NamedTuple):
    """An agent's parameters by name, and numbers in [0, 1) to sample its actions with, [120, M]; None for the most
    probable actions."""

    parameters: Parameters
    uniform: Tensor | None


def tests_compiled(mode: CompileMode, device: torch.device) -> bool:
    """Whether to compile for a test: on CUDA, unless compiling is off. On a CPU it would not pay."""
    return device.type == "cuda" and should_compile(mode, device, TIME_LIMIT)


@torch.no_grad()
def solved_levels(agent: Agent, players: Sequence[Player], levels: Levels, *, compiled: bool = False) -> Tensor:
    """Which levels each player solves, bool [P, M].

    All players play at once, as a fleet. Levels are sorted by size and played in batches of equal shapes and bounded
    memory, each until all of its games have ended.
    """
    device = levels.agent.device
    fleet = FleetAgent(agent, compiled=compiled)
    names = players[0].parameters
    laid_out = fleet.lay_out({name: torch.stack([player.parameters[name] for player in players]) for name in names})
    # -1 stands for the most probable action.
    none = torch.full((TIME_LIMIT, len(levels)), -1.0, device=device)
    uniform = torch.stack([none if player.uniform is None else player.uniform for player in players], dim=1)
    solved = torch.zeros(len(players), len(levels), dtype=torch.bool, device=device)
    for one in size_classes(levels.to("cpu"), SHARES, most=2):
        pairs = (one.capacity + NODES_BESIDE_FACTORS) ** 2 * len(players)  # of a level
        for numbers in _equal_chunks(one.levels.to(device), most=max(1, PAIRS_AT_ONCE[device.type] // pairs)):
            played = Environment(levels[numbers], _each(numbers, len(players)), one.capacity)
            memo = no_memo(agent, played.num_games, device)
            solved[:, numbers] = _play(fleet, laid_out, played, memo, uniform[..., numbers])
    return solved


def _play(fleet: FleetAgent, laid_out: list[Tensor], environment: Environment, memo: Memo, uniform: Tensor) -> Tensor:
    """Which of the games [P · B] are solved, bool [P, B]; uniform [120, P, B]."""
    players = uniform.shape[1]
    memo = Memo(*(tensor.unflatten(0, (players, -1)) for tensor in memo))
    solved, playing = torch.zeros_like(memo.kept), torch.ones_like(memo.kept)
    for step in range(TIME_LIMIT):
        decision = fleet(laid_out, by_seed(environment.observe(), players), memo)
        greedy = decision.logits.argmax(-1)
        action = torch.where(uniform[step] < 0, greedy, sample(decision.logits.softmax(-1), uniform[step]))
        outcome = environment.step(action.flatten())
        solved |= outcome.solved.view_as(solved) & playing
        playing &= ~outcome.done.view_as(playing)
        memo = Memo(decision.memo, torch.ones_like(memo.kept))
        if step % STEPS_BETWEEN_LOOKS == STEPS_BETWEEN_LOOKS - 1 and not playing.any():
            break
    return solved


def _each(numbers: Tensor, times: int) -> Tensor:
    """The indices 0 ... B - 1 of `numbers`, repeated `times` times."""
    return torch.arange(len(numbers), device=numbers.device).repeat(times)


def _equal_chunks(numbers: Tensor, most: int) -> list[Tensor]:
    """Cut numbers into chunks of one length, at most `most`. The last chunk may repeat some of them."""
    count = -(-len(numbers) // most)
    length = -(-len(numbers) // count)
    return [numbers[min(start, len(numbers) - length) :][:length] for start in range(0, count * length, length)]


def choose_action(logits: Tensor, uniform: Tensor | None) -> Tensor:
    """Actions [B] from logits [B, 5]: sampled with `uniform` [B], or the most probable ones."""
    return logits.argmax(-1) if uniform is None else sample(logits.softmax(-1), uniform)


def no_memo(agent: Agent, games: int, device: torch.device) -> Memo:
    """The absent memo before the first step of a game."""
    return Memo(
        torch.zeros(games, agent.settings.memo_size, device=device),
        torch.zeros(games, dtype=torch.bool, device=device),
    )
