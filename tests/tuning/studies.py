"""Studies made by hand: finished runs without any training."""

from collections.abc import Mapping, Sequence

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.trial import TrialState


def add_run(study, grid, configuration, value=None, state=TrialState.COMPLETE, **user_attributes):
    """One trial of `configuration`, as if somebody had run it."""
    study.add_trial(
        optuna.create_trial(
            params=configuration,
            distributions={name: CategoricalDistribution(grid[name]) for name in configuration},
            value=value,
            state=state,
            user_attrs=user_attributes,
        )
    )


def study_with(grid: Mapping, runs: Sequence[tuple[tuple, float]], direction="maximize", sampler=None) -> optuna.Study:
    """A study with one finished run for each (values in the grid's order, score)."""
    study = optuna.create_study(direction=direction, sampler=sampler)
    for values, score in runs:
        add_run(study, grid, dict(zip(grid, values, strict=True)), score)
    return study
