"""The objective of a trial: its configuration, trained once with a fresh random seed."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean

from optuna import Trial

from .grid import Configuration, Grid, suggest

Train = Callable[[Configuration, int], float | Mapping[str, float]]
"""Trains a configuration with a seed, which also decides the data. Returns its score, or a score for each task."""


@dataclass(frozen=True)
class Objective:
    """Trains a trial's configuration with a random seed. The value of the trial is the mean score over tasks.

    The seed and the score of each task are kept with the trial, as user attributes `seed` and `score of TASK`.

    >>> import optuna
    >>> objective = Objective({"layers": [2]}, lambda configuration, seed: {"bfs": 0.8, "dfs": 0.6})
    >>> round(objective(optuna.create_study().ask()), 3)
    0.7
    """

    grid: Grid
    train: Train

    def __call__(self, trial: Trial) -> float:
        configuration = suggest(trial, self.grid)
        seed = secrets.randbits(31)
        trial.set_user_attr("seed", seed)
        score = self.train(configuration, seed)
        if not isinstance(score, Mapping):
            return float(score)
        for task, value in score.items():
            trial.set_user_attr(f"score of {task}", float(value))
        return fmean(score.values())
