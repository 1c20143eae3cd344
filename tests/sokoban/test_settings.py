"""What a recipe and a configuration refuse."""

import math
from dataclasses import replace

import pytest

from relational_transformer.sokoban import RECIPES, AgentSettings, Recipe, SokobanConfig


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"discount": 1.01}, "discount must be at most 1, got 1.01"),
        ({"learning_rate": math.inf}, "learning_rate must be positive and finite, got inf"),
        ({"learning_rate": math.nan}, "learning_rate must be positive and finite, got nan"),
        ({"gradient_clip": 0.0}, "gradient_clip must be positive and finite, got 0.0"),
        ({"entropy_weight": math.inf}, "entropy_weight must be a finite number from 0 on, got inf"),
        ({"value_weight": -1.0}, "value_weight must be a finite number from 0 on, got -1.0"),
        ({"window": 0}, "window must be a positive integer, got 0"),
    ],
)
def test_numbers_that_no_recipe_can_have_are_named(numbers: dict, message: str):
    with pytest.raises(ValueError, match=message):
        Recipe(**numbers)


def test_no_discount_at_all_is_a_recipe():
    assert Recipe(discount=1.0, entropy_weight=0.0).discount == 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "lstm"}, "no model of the agent is called 'lstm'; there are transformer, rt"),
        ({"precision": "fp8"}, "precision must be one of tf32, bf16, fp32, fp64, got 'fp8'"),
        ({"compile": "maybe"}, "compile must be one of auto, on, off, got 'maybe'"),
        ({"levels": "boxoban"}, r"levels must be load_splits\(folder, ...\).identity, or None, got 'boxoban'"),
        ({"seeds": (1, 1)}, "seeds must be different numbers from 0 to"),
        ({"test_levels": 0}, "at least one level to train on and one to test on"),
    ],
)
def test_what_cannot_be_a_run_is_refused(changes: dict, message: str):
    with pytest.raises(ValueError, match=message):
        replace(SokobanConfig("rt", RECIPES["batched"], settings=AgentSettings()), **changes)


@pytest.mark.parametrize(("games", "rate"), [(1, 1.6e-5), (16, 6.4e-5), (64, 1.28e-4), (128, 1.81e-4)])
def test_the_learning_rate_grows_with_the_root_of_the_number_of_games(games: int, rate: float):
    assert RECIPES["original"].with_games(games).learning_rate == rate
    assert RECIPES["batched"].with_games(games).learning_rate == pytest.approx(rate, rel=0.01)
    assert RECIPES["batched"].with_games(games).num_games == games


def test_no_games_are_refused():
    with pytest.raises(ValueError, match="num_games must be a positive integer, got 0"):
        RECIPES["batched"].with_games(0)
