"""A test of many levels at once against games played one by one."""

import pytest
import torch

from relational_transformer.fleet.fleet import initialise
from relational_transformer.sokoban import Agent, Levels, generate_levels
from relational_transformer.sokoban import evaluation as room
from relational_transformer.sokoban.chance import test_noise as noise_of_test
from relational_transformer.sokoban.evaluation import Player, solved_levels
from relational_transformer.sokoban.game.levels import join_levels, parse_levels
from relational_transformer.sokoban.game.rules import TIME_LIMIT
from relational_transformer.sokoban.trained import agent_actions
from tests.sokoban.slow_game import SlowGame
from tests.sokoban.small import CORRIDOR, LONG_CORRIDOR, SETTINGS, rows_of

LEVELS = join_levels([parse_levels(4 * CORRIDOR + 2 * LONG_CORRIDOR), generate_levels(5, seed=2)])


def make_agent(seed: int) -> Agent:
    """One that prefers some actions to others."""
    agent = initialise(lambda: Agent("rt", SETTINGS), seed)
    with torch.no_grad():
        agent.policy.weight.normal_(generator=torch.Generator().manual_seed(seed))
        agent.policy.bias.copy_(torch.tensor([-1.0, 0.0, 0.0, 0.0, 1.0]))
    return agent


def solves(agent: Agent, levels: Levels, number: int, uniform: torch.Tensor | None) -> bool:
    """Whether it solves a level by itself, as the slow environment tells."""
    game = SlowGame(rows_of(levels, number))
    *_, (_, _, solved) = [game.step(action) for action in agent_actions(agent, levels[number], uniform)]
    return solved


Given = list[tuple[Agent, torch.Tensor | None]]
"""Agents, and the random numbers by which they draw actions."""


@pytest.fixture(scope="module")
def level_by_level() -> tuple[Given, list[list[bool]]]:
    """What every agent solves, one level after the other."""
    agents = [make_agent(seed) for seed in (0, 1)]
    noise = noise_of_test(7, TIME_LIMIT, len(LEVELS))
    given: Given = [(agents[0], noise), (agents[0], None), (agents[1], noise)]
    numbers = range(len(LEVELS))
    return given, [
        [solves(one, LEVELS, number, None if uniform is None else uniform[:, number]) for number in numbers]
        for one, uniform in given
    ]


@pytest.mark.parametrize("pairs_at_once", [200_000, 3 * 3 * 40**2, 1])
def test_players_at_once_solve_what_each_solves_level_by_level(monkeypatch, level_by_level, pairs_at_once: int):
    """The five large levels, of 40 nodes, are one batch, or two of three levels that do not come out even, or five."""
    monkeypatch.setitem(room.PAIRS_AT_ONCE, "cpu", pairs_at_once)
    given, expected = level_by_level
    players = [Player(dict(one.named_parameters()), uniform) for one, uniform in given]
    assert solved_levels(given[0][0], players, LEVELS).tolist() == expected
    assert 0 < sum(map(sum, expected)) < 3 * len(LEVELS)


def test_a_batch_ends_when_its_games_have(monkeypatch):
    """A corridor is solved in two steps by an agent that goes to the right; there is a look every ten steps."""
    agent = make_agent(0)
    with torch.no_grad():
        agent.policy.weight.zero_()
    steps = []
    step = room.Environment.step
    monkeypatch.setattr(room.Environment, "step", lambda self, action: steps.append(action) or step(self, action))
    solved = solved_levels(agent, [Player(dict(agent.named_parameters()), None)], parse_levels(3 * CORRIDOR))
    assert solved.all()
    assert len(steps) == room.STEPS_BETWEEN_LOOKS
