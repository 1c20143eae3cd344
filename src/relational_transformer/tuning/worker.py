"""One worker of a search. Start as many as there are machines: they meet only in the storage."""

import math
from collections.abc import Callable

from optuna import Study, Trial
from optuna.trial import FrozenTrial, TrialState

from .analysis import MINIMUM_RUNS, Search, analyse
from .grid import Grid
from .heartbeat import GRACE_SECONDS, INTERVAL_SECONDS, Heartbeat, fail_stale_trials

Report = Callable[[FrozenTrial, Search], None]


def work(
    study: Study,
    grid: Grid,
    objective: Callable[[Trial], float],
    *,
    trials: int,
    minimum_runs: int = MINIMUM_RUNS,
    report: Report | None = None,
    interval: float = INTERVAL_SECONDS,
    grace: float = GRACE_SECONDS,
) -> Search:
    """Runs trials until the study has `trials` runs, finished or under way by any worker, or its search has converged.

    Before each trial, trials of workers that died are marked as failed. An error in the objective fails its own trial
    and ends this worker; a score that is not a number fails the trial only. `report` is called after each trial.

    >>> import optuna
    >>> from relational_transformer.tuning import GridDescentSampler, Objective
    >>> grid = {"layers": [1, 2, 3, 4]}
    >>> study = optuna.create_study(direction="maximize", sampler=GridDescentSampler(grid, seed=0))
    >>> objective = Objective(grid, lambda configuration, seed: -abs(configuration["layers"] - 3))
    >>> search = work(study, grid, objective, trials=30)
    >>> search.configuration(search.best), search.converged
    ({'layers': 3}, True)
    """
    while True:
        fail_stale_trials(study, grace)
        search = analyse(study, grid, minimum_runs)
        if search.converged or search.runs + search.trials[TrialState.RUNNING] >= trials:
            return search
        trial = run_trial(study, objective, interval)
        if report is not None:
            report(trial, analyse(study, grid, minimum_runs))


def run_trial(study: Study, objective: Callable[[Trial], float], interval: float = INTERVAL_SECONDS) -> FrozenTrial:
    """One trial, from the question to the answer, with a heartbeat in between."""
    trial = study.ask()
    try:
        with Heartbeat(trial, interval):
            score = objective(trial)
    except BaseException:
        study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
        raise
    if math.isnan(score):
        return study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
    # Finished already: the others took this worker for dead, and its trial does not count.
    return study.tell(trial, score, skip_if_finished=True)
