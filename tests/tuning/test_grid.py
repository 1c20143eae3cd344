"""Positions, steps and what a grid may hold."""

import optuna
import pytest

from relational_transformer.tuning.grid import check_grid, configuration_at, neighbourhood_of, position_of, suggest

GRID = {"layers": [1, 2, 4], "rate": [0.1, 0.01], "mode": ["cat"]}


def test_a_configuration_and_its_position_stand_for_each_other():
    configuration = {"layers": 4, "rate": 0.1, "mode": "cat"}
    assert position_of(GRID, configuration) == (2, 0, 0)
    assert configuration_at(GRID, (2, 0, 0)) == configuration


def test_what_does_not_stand_on_the_grid_has_no_position():
    assert position_of(GRID, {"layers": 3, "rate": 0.1, "mode": "cat"}) is None
    assert position_of(GRID, {"layers": 4, "rate": 0.1}) is None


def test_the_neighbourhood_is_the_place_itself_and_one_step_in_exactly_one_hyperparameter():
    assert neighbourhood_of(GRID, (1, 0, 0)) == [(1, 0, 0), (0, 0, 0), (2, 0, 0), (1, 1, 0)]


def test_steps_end_at_the_edge_of_the_grid_and_do_not_wrap_around():
    assert neighbourhood_of(GRID, (2, 1, 0)) == [(2, 1, 0), (1, 1, 0), (2, 0, 0)]


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({}, "at least one hyperparameter"),
        ({"rate": []}, "rate needs a list of one or more values"),
        ({"mode": "cat"}, "mode needs a list of one or more values"),
        ({"layers": [1, 2, 1]}, "layers holds a value twice"),
        ({"rate": [0.1, float("nan")]}, "rate holds a value twice or a NaN"),
        ({"sizes": [(16, 8)]}, "sizes may hold numbers, strings, booleans and None"),
    ],
)
def test_a_grid_that_cannot_be_searched_is_refused_in_one_sentence(grid, message):
    with pytest.raises(ValueError, match=message):
        check_grid(grid)


def test_suggest_asks_a_trial_for_every_hyperparameter():
    trial = optuna.create_study().ask()
    configuration = suggest(trial, GRID)
    assert configuration == trial.params
    assert position_of(GRID, configuration) is not None
