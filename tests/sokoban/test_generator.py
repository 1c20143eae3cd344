"""Levels made by playing backwards."""

import pytest
import torch

from relational_transformer.sokoban import generate_levels
from relational_transformer.sokoban.game.generator import generate_with_solutions
from tests.sokoban.slow_game import SlowGame, shortest_solution
from tests.sokoban.small import rows_of


def test_the_solution_of_every_level_solves_it_within_the_time_limit():
    levels, solutions = generate_with_solutions(60, seed=1)
    for number, actions in enumerate(solutions.tolist()):
        game = SlowGame(rows_of(levels, number))
        assert any(game.step(action)[2] for action in actions)


def test_a_solver_finds_solutions_of_levels_with_one_box():
    levels = generate_levels(10, seed=2, num_boxes=1)
    for number in range(10):
        solution = shortest_solution(rows_of(levels, number))
        assert solution is not None
        assert len(solution) <= 120


def test_levels_have_four_boxes_four_targets_and_walls_around():
    levels = generate_levels(50, seed=3)
    assert (levels.boxes.sum(1) == 4).all()
    assert (levels.targets.sum(1) == 4).all()
    border = torch.ones(10, 10, dtype=torch.bool)
    border[1:9, 1:9] = False
    assert levels.walls[:, border.flatten()].all()


def test_nothing_starts_on_a_target_or_in_a_wall():
    levels = generate_levels(50, seed=3)
    agent = torch.nn.functional.one_hot(levels.agent, 100).bool()
    assert not (levels.boxes & levels.targets).any()
    assert not (agent & (levels.targets | levels.boxes | levels.walls)).any()
    assert not ((levels.boxes | levels.targets) & levels.walls).any()


def test_a_seed_always_gives_the_same_levels_however_many_are_asked_for():
    levels, more = generate_levels(5, seed=4), generate_levels(9, seed=4)
    assert levels.as_text() == more[:5].as_text()
    assert levels.as_text() != generate_levels(5, seed=5).as_text()


def test_impossible_numbers_are_refused():
    with pytest.raises(ValueError, match="levels and boxes must be at least 1, boxes at most 8, got 0 and 4"):
        generate_levels(0, seed=0)
