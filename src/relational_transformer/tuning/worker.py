"""One worker of a search. Workers communicate through the storage alone."""

import math
import time
from collections.abc import Callable

from optuna import Study, Trial
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState

from . import workplace
from .analysis import MINIMUM_RUNS, Search, analyse
from .grid import Grid
from .heartbeat import INTERVAL_SECONDS, Heartbeat
from .lost_trials import LostTrials
from .run_sets import finished_runs
from .storages import seal
from .workplace import Claim

Report = Callable[[FrozenTrial, Search], None]
LOOK_SECONDS = 5.0


def work(
    study: Study,
    grid: Grid,
    objective: Callable[[Trial], float],
    *,
    trials: int,
    minimum_runs: int = MINIMUM_RUNS,
    report: Report | None = None,
    interval: float = INTERVAL_SECONDS,
    claim: Claim | None = None,
    lost: LostTrials | None = None,
    wait: Callable[[Search], None] = lambda search: time.sleep(LOOK_SECONDS),
) -> Search:
    """Run trials until all workers together have made `trials` runs, or the search has converged.

    While the last runs are under way in other workers, `wait` is called repeatedly: if one of these dies, its run is
    repeated here. Before each trial, `lost` marks the trials of dead workers as failed. An error in the objective fails
    the trial and ends this worker; a NaN score fails only the trial. `report` is called after each trial. `claim` names
    the folder in which this worker trains (see `workplace`).

    >>> import optuna
    >>> from relational_transformer.tuning import GridDescentSampler, Objective
    >>> grid = {"layers": [1, 2, 3, 4]}
    >>> study = optuna.create_study(direction="maximize", sampler=GridDescentSampler(grid, seed=0))
    >>> objective = Objective(grid, lambda configuration, seed: -abs(configuration["layers"] - 3))
    >>> search = work(study, grid, objective, trials=30)
    >>> search.configuration(search.best), search.converged
    ({'layers': 3}, True)
    """
    lost = lost or LostTrials(study)
    while True:
        lost.fail()
        search = analyse(study, grid, minimum_runs)
        if search.converged or search.runs >= trials:
            return search
        if search.runs + search.trials[TrialState.RUNNING] >= trials:
            wait(search)
            continue
        trial = study.ask()
        if is_one_too_many(study, grid, trial, trials):
            study.tell(trial, state=TrialState.FAIL)
            continue
        ended = carry_out(study, trial, objective, interval, claim)
        if report is not None:
            report(ended, analyse(study, grid, minimum_runs))


def is_one_too_many(study: Study, grid: Grid, trial: Trial, trials: int) -> bool:
    """Whether other workers have begun the last of the `trials` runs since this worker decided to begin one.

    Of trials that begin at the same time, those with the lower numbers continue.
    """
    earlier = [one for one in study.get_trials(deepcopy=False) if one.number != trial.number]
    running = sum(one.state is TrialState.RUNNING and one.number < trial.number for one in earlier)
    return len(finished_runs(earlier, grid)) + running >= trials


def run_trial(
    study: Study,
    objective: Callable[[Trial], float],
    interval: float = INTERVAL_SECONDS,
    claim: Claim | None = None,
) -> FrozenTrial:
    """Ask the study for one trial and run it."""
    return carry_out(study, study.ask(), objective, interval, claim)


def carry_out(
    study: Study, trial: Trial, objective: Callable[[Trial], float], interval: float, claim: Claim | None
) -> FrozenTrial:
    """Run a trial with a heartbeat, and tell the study its score."""
    try:
        if claim is not None:
            trial.set_user_attr(workplace.ATTRIBUTE, claim)
        with Heartbeat(trial, interval):
            score = objective(trial)
        if not math.isnan(score):
            trial.set_user_attr(
                seal.ATTRIBUTE, seal.seal_of(study.study_name, trial.number, trial.params, float(score))
            )
    except UpdateFinishedTrialError:  # another worker has failed the trial
        return study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
    except BaseException:
        study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
        raise
    if math.isnan(score):
        return study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
    return study.tell(trial, score, skip_if_finished=True)
