"""The state of a search: its best run sets, what is left to try around the best, and whether it has converged."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from optuna import Study
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from .grid import Configuration, Grid, Position, configuration_at, neighbourhood_of
from .run_sets import RunSet, finished_runs, gather_run_sets, rank, standing

MINIMUM_RUNS = 5
"""Runs that the best configuration needs before a search has converged."""


@dataclass(frozen=True)
class Search:
    """The state of a search, which depends on the finished runs alone. See `analyse`.

    >>> import optuna
    >>> search = analyse(optuna.create_study(), {"layers": [1, 2, 4]})
    >>> search.converged, search.missing
    (False, ('no run has finished yet',))
    """

    grid: Grid
    run_sets: dict[Position, RunSet]
    ranking: tuple[RunSet, ...]
    """Best first."""
    neighbourhood: tuple[Position, ...]
    """The best configuration, and those one step away from it."""
    stable_for: int
    """Runs finished since the best configuration last changed, its own first run included."""
    minimum_runs: int
    trials: Counter[TrialState]
    """Trials by state."""

    @property
    def best(self) -> RunSet | None:
        return self.ranking[0] if self.ranking else None

    @property
    def unexplored(self) -> tuple[Position, ...]:
        """Neighbours of the best configuration without a finished run."""
        return tuple(place for place in self.neighbourhood if place not in self.run_sets)

    @property
    def runs(self) -> int:
        return sum(run_set.count for run_set in self.ranking)

    @property
    def missing(self) -> tuple[str, ...]:
        """The conditions of convergence that are not met, in words; empty if the search has converged."""
        if self.best is None:
            return ("no run has finished yet",)
        missing = []
        if self.unexplored:
            missing.append(f"{len(self.unexplored)} of {len(self.neighbourhood) - 1} neighbours have no run yet")
        if self.best.count < self.minimum_runs:
            missing.append(f"the best configuration has {self.best.count} of {self.minimum_runs} runs")
        if self.stable_for < len(self.neighbourhood):
            missing.append(f"it has been the best for {self.stable_for} of {len(self.neighbourhood)} runs")
        return tuple(missing)

    @property
    def converged(self) -> bool:
        """Whether every neighbour of the best has a run, the best has `minimum_runs` runs, and it has been the best for
        as many runs as its neighbourhood has members."""
        return not self.missing

    def configuration(self, place: Position | RunSet) -> Configuration:
        return configuration_at(self.grid, place.position if isinstance(place, RunSet) else place)


def analyse(study: Study, grid: Grid, minimum_runs: int = MINIMUM_RUNS) -> Search:
    """The state of the search of `study` over `grid`.

    >>> import optuna
    >>> from relational_transformer.tuning import GridDescentSampler, suggest
    >>> grid = {"layers": [1, 2, 3, 4]}
    >>> study = optuna.create_study(direction="maximize", sampler=GridDescentSampler(grid, seed=0))
    >>> study.optimize(lambda trial: -abs(suggest(trial, grid)["layers"] - 3), n_trials=20)
    >>> search = analyse(study, grid)
    >>> search.configuration(search.best), search.unexplored, search.converged
    ({'layers': 3}, (), True)
    """
    trials = study.get_trials(deepcopy=False)
    maximize = study.direction is StudyDirection.MAXIMIZE
    run_sets = gather_run_sets(trials, grid)
    ranking = rank(run_sets, maximize)
    return Search(
        grid=grid,
        run_sets=run_sets,
        ranking=tuple(ranking),
        neighbourhood=tuple(neighbourhood_of(grid, ranking[0].position)) if ranking else (),
        stable_for=count_stable_runs(trials, grid, maximize),
        minimum_runs=minimum_runs,
        trials=Counter(trial.state for trial in trials),
    )


def count_stable_runs(trials: Sequence[FrozenTrial], grid: Grid, maximize: bool) -> int:
    """The number of runs, in order, since the best configuration last changed."""
    run_sets: dict[Position, RunSet] = {}
    best: RunSet | None = None
    stable = 0
    for number, position, score in finished_runs(trials, grid):
        run_set = run_sets.get(position, RunSet(position, (), number)).with_run(score, number)
        run_sets[position] = run_set
        if best is not None and position == best.position:
            leader = max(run_sets.values(), key=lambda one: standing(one, maximize))  # its mean may have fallen
        elif best is None or standing(run_set, maximize) > standing(best, maximize):
            leader = run_set
        else:
            leader = best
        stable = stable + 1 if best is not None and leader.position == best.position else 1
        best = leader
    return stable
