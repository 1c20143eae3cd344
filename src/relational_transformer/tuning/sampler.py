"""Distributed Grid Descent as an Optuna sampler."""

import secrets
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from .grid import Grid, Position, check_grid, configuration_at, neighbourhood_of
from .run_sets import gather_run_sets, rank


class GridDescentSampler(BaseSampler):
    r"""Distributed Grid Descent (Loynd et al., 2020, "Working Memory Graphs", appendix B).

    Each worker reads the finished runs of all workers and chooses one configuration; there is no coordinator. The runs
    of one configuration are a run set, whose metric is their mean. The neighbourhood B of the best run set S (the
    newest one of equals) consists of S and every configuration one step away in exactly one hyperparameter. A member x
    of B that has n(x) runs is chosen with probability

    $$p(x) \propto M - n(x), \qquad M = 1 + \max_{y \in B} n(y)$$

    so neighbours without a run come first, and the best configuration is run again and again. Without results, the
    configuration is random. With a default, each hyperparameter is then at its default or one step from it.

    Failed, pruned and running trials are not counted. Configurations are chosen repeatedly on purpose. The choice
    depends on the seed, the trial's number and the finished runs alone. So workers may share a seed, and a search that
    runs one trial at a time can be repeated exactly.

    Args:
        grid: hyperparameter -> its ordered values. The objective asks for each with `trial.suggest_categorical(name,
            values)`, or for all of them with `suggest(trial, grid)`. Hyperparameters that are not on the grid are drawn
            at random.
        default: the start of the search: hyperparameter -> one of its values, for any of the hyperparameters.
        seed: for reproducible choices; None takes one from the operating system.

    >>> import optuna
    >>> from relational_transformer.tuning import suggest
    >>> grid = {"rate": [0.001, 0.01, 0.1], "layers": [1, 2, 3, 4]}
    >>> study = optuna.create_study(direction="maximize", sampler=GridDescentSampler(grid, seed=0))
    >>> study.optimize(lambda trial: -abs(suggest(trial, grid)["layers"] - 3), n_trials=30)
    >>> study.best_params["layers"]
    3
    """

    def __init__(self, grid: Grid, default: Mapping[str, Any] | None = None, seed: int | None = None) -> None:
        self.grid = check_grid(grid)
        self.default = dict(default or {})
        for name, value in self.default.items():
            if name not in self.grid:
                raise ValueError(f"the default names {name!r}, the grid has {', '.join(self.grid)}")
            if value not in self.grid[name]:
                raise ValueError(f"the default {name}={value!r} is not one of its values {list(self.grid[name])!r}")
        self.seed = secrets.randbits(64) if seed is None else seed

    def __repr__(self) -> str:
        return f"GridDescentSampler({self.grid!r}, default={self.default!r}, seed={self.seed!r})"

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return {name: CategoricalDistribution(values) for name, values in self.grid.items()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        check_single_objective(study)
        outside = {
            name: self.sample_independent(study, trial, name, distribution)
            for name, distribution in search_space.items()
            if name not in self.grid
        }
        # A hyperparameter that is fixed (by optuna's PartialFixedSampler) is missing from the search space.
        grid = {name: values for name, values in self.grid.items() if name in search_space}
        return configuration_at(grid, self._choose(study, trial, grid)) | outside

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        check_single_objective(study)
        seed = self._generator(trial, param_name).integers(2**32)
        return RandomSampler(int(seed)).sample_independent(study, trial, param_name, param_distribution)

    def _choose(self, study: Study, trial: FrozenTrial, grid: Grid) -> Position:
        generator = self._generator(trial)
        run_sets = gather_run_sets(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)), grid)
        if not run_sets:
            return tuple(int(generator.choice(self._first_choices(name, values))) for name, values in grid.items())
        best = rank(run_sets, study.direction is StudyDirection.MAXIMIZE)[0]
        neighbourhood = neighbourhood_of(grid, best.position)
        counts = np.array([run_sets[place].count if place in run_sets else 0 for place in neighbourhood])
        weights = counts.max() + 1 - counts
        return neighbourhood[generator.choice(len(neighbourhood), p=weights / weights.sum())]

    def _first_choices(self, name: str, values: Any) -> range:
        """The indices of a hyperparameter's values from which the search may begin."""
        if name not in self.default:
            return range(len(values))
        index = values.index(self.default[name])
        return range(max(index - 1, 0), min(index + 2, len(values)))

    def _generator(self, trial: FrozenTrial, purpose: str = "the grid") -> np.random.Generator:
        # Never the same as `default_rng(seed)`, which an objective with the same seed may use. To numpy [seed, 0, 0] is
        # the same as seed, so the last word must not be 0.
        return np.random.default_rng([self.seed, trial.number, 1 + zlib.crc32(purpose.encode())])


def check_single_objective(study: Study) -> None:
    if len(study.directions) > 1:
        raise ValueError(f"GridDescentSampler searches for one objective, the study has {len(study.directions)}")
