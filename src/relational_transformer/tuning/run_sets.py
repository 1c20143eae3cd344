"""Run sets: all finished runs of one configuration, compared by their mean score."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import stdev

from optuna.trial import FrozenTrial, TrialState

from .grid import Grid, Position, position_of


@dataclass(frozen=True)
class RunSet:
    """The finished runs of one configuration. Failed, killed and running trials do not count.

    >>> runs = RunSet(position=(2, 0), scores=(0.5, 0.75), newest=4).with_run(1.0, number=9)
    >>> runs.count, runs.mean, round(runs.standard_error, 3), runs.newest
    (3, 0.75, 0.144, 9)
    """

    position: Position
    scores: tuple[float, ...]
    newest: int
    """The number of the newest trial."""

    @property
    def count(self) -> int:
        return len(self.scores)

    @property
    def mean(self) -> float:
        return sum(self.scores) / len(self.scores)

    @property
    def standard_error(self) -> float | None:
        """The standard error of the mean; None for a single run."""
        return stdev(self.scores) / len(self.scores) ** 0.5 if len(self.scores) > 1 else None

    def with_run(self, score: float, number: int) -> "RunSet":
        return RunSet(self.position, (*self.scores, score), max(self.newest, number))


def finished_runs(trials: Iterable[FrozenTrial], grid: Grid) -> list[tuple[int, Position, float]]:
    """Number, position and score of every completed trial on the grid, in order of their numbers."""
    runs = []
    for trial in trials:
        if trial.state is TrialState.COMPLETE and trial.value is not None:
            position = position_of(grid, trial.params)
            if position is not None:
                runs.append((trial.number, position, trial.value))
    return sorted(runs)


def gather_run_sets(trials: Iterable[FrozenTrial], grid: Grid) -> dict[Position, RunSet]:
    """All run sets of a study's trials, by position.

    >>> import optuna
    >>> study, grid = optuna.create_study(), {"layers": [1, 2, 4]}
    >>> study.enqueue_trial({"layers": 4})
    >>> study.optimize(lambda trial: 0.5 * trial.suggest_categorical("layers", grid["layers"]), n_trials=1)
    >>> gather_run_sets(study.trials, grid)
    {(2,): RunSet(position=(2,), scores=(2.0,), newest=0)}
    """
    run_sets: dict[Position, RunSet] = {}
    for number, position, score in finished_runs(trials, grid):
        run_sets[position] = run_sets.get(position, RunSet(position, (), number)).with_run(score, number)
    return run_sets


def standing(run_set: RunSet, maximize: bool) -> tuple[float, int]:
    """The key by which run sets are compared: the mean, and the newest trial for equal means. Larger is better."""
    return (run_set.mean if maximize else -run_set.mean), run_set.newest


def rank(run_sets: Mapping[Position, RunSet], maximize: bool) -> list[RunSet]:
    """All run sets, best first."""
    return sorted(run_sets.values(), key=lambda run_set: standing(run_set, maximize), reverse=True)
