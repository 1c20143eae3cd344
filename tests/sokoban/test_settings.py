"""What a recipe and a configuration refuse."""

import math
from dataclasses import replace

import pytest

from relational_transformer.sokoban import RECIPES, AgentSettings, Recipe, SokobanConfig


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"discount": 1.01}, "discount must be at most 1, got 1.01"),
        ({"learning_rate": math.inf}, "learning-rate must be at most 1000, got inf"),
        ({"learning_rate": math.nan}, "learning-rate must be a number above 0, got nan"),
        ({"gradient_clip": 0.0}, "gradient-clip must be a number above 0, got 0.0"),
        ({"entropy_weight": math.inf}, "entropy-weight must be at most 1e\\+30, got inf"),
        ({"value_weight": -1.0}, "value-weight must be at least 0, got -1.0"),
        ({"window": 0}, "window must be at least 1, got 0"),
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
        ({"model": "lstm"}, "the agent has no model 'lstm'; the models are transformer, rt"),
        ({"precision": "fp8"}, "precision must be one of tf32, bf16, fp32, fp64, got 'fp8'"),
        ({"compile": "maybe"}, "compile must be one of auto, on, off, got 'maybe'"),
        ({"levels": "boxoban"}, r"levels must be load_splits\(folder, ...\).identity, or None, got 'boxoban'"),
        ({"seeds": (1, 1)}, "seeds must be different numbers from 0 to"),
        ({"test_levels": 0}, "test-levels must be at least 1, got 0"),
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
    with pytest.raises(ValueError, match="games must be at least 1, got 0"):
        RECIPES["batched"].with_games(0)
