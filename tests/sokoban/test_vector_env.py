"""The environment behind Gymnasium's API."""

import sys

import numpy as np
import pytest

from relational_transformer.sokoban import generate_levels, parse_levels
from tests.sokoban.small import CORRIDOR

pytest.importorskip("gymnasium")
from relational_transformer.sokoban.game.vector_env import SokobanVectorEnv

LEFT, RIGHT = 3, 4


def corridor_games() -> SokobanVectorEnv:
    return SokobanVectorEnv(parse_levels(CORRIDOR), num_envs=2)


def test_observations_and_actions_are_in_their_spaces():
    games = SokobanVectorEnv(generate_levels(8, seed=0), num_envs=5)
    games.action_space.seed(0)
    observation, _ = games.reset(seed=0)
    assert games.observation_space.contains(observation)
    for _ in range(130):
        observation, rewards, terminated, truncated, _ = games.step(games.action_space.sample())
        assert games.observation_space.contains(observation)
        assert rewards.shape == terminated.shape == truncated.shape == (5,)
        assert not truncated.any()


def test_a_solved_game_is_terminated_and_the_next_begins_in_the_same_step():
    games = corridor_games()
    first, _ = games.reset(seed=0)
    games.step(np.array([RIGHT, LEFT]))
    observation, rewards, terminated, _, infos = games.step(np.array([RIGHT, LEFT]))
    assert rewards.tolist() == [3.0, 0.0]
    assert terminated.tolist() == infos["solved"].tolist() == [True, False]
    assert np.array_equal(observation["factors"][0], first["factors"][0])
    assert infos["_final_obs"].tolist() == [True, False]
    assert infos["final_obs"][0]["core"][5] == 3.0  # the last reward
    assert infos["final_obs"][1] is None


def test_running_out_of_time_is_termination():
    games = corridor_games()
    games.reset(seed=0)
    ends = [games.step(np.zeros(2, dtype=np.int64))[2].tolist() for _ in range(120)]
    assert ends == [[False, False]] * 119 + [[True, True]]


def test_a_seed_gives_the_same_games():
    games = SokobanVectorEnv(generate_levels(50, seed=0), num_envs=6)
    one, _ = games.reset(seed=3)
    games.step(games.action_space.sample())
    again, _ = games.reset(seed=3)
    other, _ = games.reset(seed=4)
    assert all(np.array_equal(one[name], again[name]) for name in one)
    assert not np.array_equal(one["factors"], other["factors"])


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="at least one game is needed, got num_envs=0"):
        SokobanVectorEnv(parse_levels(CORRIDOR), num_envs=0)
    with pytest.raises(ValueError, match="reset the environment before its first step"):
        corridor_games().step(np.array([0, 0]))


def test_without_gymnasium_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "relational_transformer.sokoban.game.vector_env")
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[rl\]'"):
        import relational_transformer.sokoban.game.vector_env  # noqa: F401
