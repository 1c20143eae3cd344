"""Grids: every hyperparameter with its ordered list of values, and the neighbours of a point."""

from collections.abc import Mapping, Sequence
from typing import Any

from optuna import Trial

Value = None | bool | int | float | str
Grid = Mapping[str, Sequence[Value]]
"""Hyperparameter -> its ordered values. Adjacent values are one step apart."""

Configuration = dict[str, Any]
"""Hyperparameter -> one of its values."""

Position = tuple[int, ...]
"""A configuration as indices into the grid's lists, in the grid's order."""


def check_grid(grid: Grid) -> dict[str, tuple[Value, ...]]:
    """The grid as a dict of tuples; ValueError where it cannot be searched."""
    if not grid:
        raise ValueError("a grid needs at least one hyperparameter")
    for name, values in grid.items():
        if isinstance(values, str) or not values:
            raise ValueError(f"{name} needs a list of one or more values, got {values!r}")
        for value in values:
            if not isinstance(value, Value):
                raise ValueError(f"{name} may hold numbers, strings, booleans and None, got {value!r}")
        if len(set(values)) < len(values) or any(value != value for value in values):
            raise ValueError(f"{name} holds a value twice or a NaN: {list(values)!r}")
    return {name: tuple(values) for name, values in grid.items()}


def position_of(grid: Grid, configuration: Mapping[str, Any]) -> Position | None:
    """The position of a configuration on the grid; None where it lacks a hyperparameter or has a value that is not on
    the grid.

    >>> position_of({"layers": [1, 2, 4], "rate": [0.1, 0.01]}, {"rate": 0.1, "layers": 4})
    (2, 0)
    """
    try:
        return tuple(list(values).index(configuration[name]) for name, values in grid.items())
    except (KeyError, ValueError):
        return None


def configuration_at(grid: Grid, position: Position) -> Configuration:
    """The configuration at a position.

    >>> configuration_at({"layers": [1, 2, 4], "rate": [0.1, 0.01]}, (2, 0))
    {'layers': 4, 'rate': 0.1}
    """
    return {name: values[index] for (name, values), index in zip(grid.items(), position, strict=True)}


def neighbourhood_of(grid: Grid, position: Position) -> list[Position]:
    """A position, and all that are one step away from it in exactly one hyperparameter.

    >>> neighbourhood_of({"layers": [1, 2, 4], "rate": [0.1, 0.01]}, (1, 0))
    [(1, 0), (0, 0), (2, 0), (1, 1)]
    """
    return [
        position,
        *(
            (*position[:axis], position[axis] + step, *position[axis + 1 :])
            for axis, values in enumerate(grid.values())
            for step in (-1, 1)
            if 0 <= position[axis] + step < len(values)
        ),
    ]


def suggest(trial: Trial, grid: Grid) -> Configuration:
    """The configuration of a trial, by one `suggest_categorical` for each hyperparameter of the grid.

    >>> import optuna
    >>> trial = optuna.create_study().ask()
    >>> sorted(suggest(trial, {"layers": [2], "rate": [0.1]}).items())
    [('layers', 2), ('rate', 0.1)]
    """
    return {name: trial.suggest_categorical(name, values) for name, values in grid.items()}
