"""Run sets: all finished runs of one configuration, judged by their mean."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import stdev

from optuna.trial import FrozenTrial, TrialState

from .grid import Grid, Position, position_of


@dataclass(frozen=True)
class RunSet:
    """The runs of one configuration. Only what finished is a run: a failed, killed or running trial never is.

    >>> runs = RunSet(position=(2, 0), scores=(0.5, 0.75), newest=4).with_run(1.0, number=9)
    >>> runs.count, runs.mean, round(runs.standard_error, 3), runs.newest
    (3, 0.75, 0.144, 9)
    """

    position: Position
    scores: tuple[float, ...]
    newest: int
    """The number of its newest trial."""

    @property
    def count(self) -> int:
        return len(self.scores)

    @property
    def mean(self) -> float:
        return sum(self.scores) / len(self.scores)

    @property
    def standard_error(self) -> float | None:
        """Of the mean; None for a single run, which does not say."""
        return stdev(self.scores) / len(self.scores) ** 0.5 if len(self.scores) > 1 else None

    def with_run(self, score: float, number: int) -> "RunSet":
        return RunSet(self.position, (*self.scores, score), max(self.newest, number))


def finished_runs(trials: Iterable[FrozenTrial], grid: Grid) -> list[tuple[int, Position, float]]:
    """Trial number, position and score of every completed trial that stands on the grid, by trial number."""
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
    """The greater, the better: by the mean; of equal means, the one run last is the better."""
    return (run_set.mean if maximize else -run_set.mean), run_set.newest


def rank(run_sets: Mapping[Position, RunSet], maximize: bool) -> list[RunSet]:
    """Best first."""
    return sorted(run_sets.values(), key=lambda run_set: standing(run_set, maximize), reverse=True)
