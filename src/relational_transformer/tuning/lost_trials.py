"""Trials whose worker was killed: noticed by the other workers, and marked as failed."""

import time
from collections.abc import Callable
from typing import Any

from optuna import Study
from optuna.exceptions import UpdateFinishedTrialError
from optuna.logging import get_logger
from optuna.trial import FrozenTrial, TrialState

from . import heartbeat, workplace

GRACE_SECONDS = 180.0
"""A trial without a new heartbeat for this long has lost its worker: six beats, for networks pause."""


class LostTrials:
    """What one worker knows of the signs of life of all trials.

    A worker that was on this machine is known to be dead from its folder (see `workplace`), at once. Any other is taken
    for dead when its heartbeat has not changed for more than `grace` seconds, by this worker's own clock: no other
    clock is ever asked.

    >>> import optuna
    >>> study = optuna.create_study()
    >>> trial = study.ask()  # and nobody works on it
    >>> seconds = iter([0.0, 50.0, 70.0])
    >>> lost = LostTrials(study, grace=60.0, clock=lambda: next(seconds))
    >>> lost.fail(), lost.fail(), lost.fail()
    ([], [], [0])
    """

    def __init__(self, study: Study, grace: float = GRACE_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._study = study
        self._grace = grace
        self._clock = clock
        self._seen: dict[int, tuple[Any, float]] = {}  # trial -> its last heartbeat, and when that was new to us

    def fail(self) -> list[int]:
        """Mark the trials of dead workers as failed, and remove the folders that these left on this machine.

        Returns the trials' numbers. Any worker may do it, at any time.
        """
        trials = self._study.get_trials(deepcopy=False)
        failed = [trial.number for trial in self._find(trials) if self._fail(trial)]
        claims = {str(claim): claim for trial in trials if (claim := trial.user_attrs.get(workplace.ATTRIBUTE))}
        for claim in claims.values():
            workplace.remove_abandoned(claim)
        return failed

    def _find(self, trials: list[FrozenTrial]) -> list[FrozenTrial]:
        now = self._clock()
        running = [trial for trial in trials if trial.state is TrialState.RUNNING]
        before, self._seen = self._seen, {}
        for trial in running:
            beat = trial.user_attrs.get(heartbeat.ATTRIBUTE)
            last, since = before.get(trial.number, (beat, now))
            self._seen[trial.number] = (beat, since if beat == last else now)
        return [
            trial
            for trial in running
            if now - self._seen[trial.number][1] > self._grace
            or workplace.is_abandoned(trial.user_attrs.get(workplace.ATTRIBUTE))
        ]

    def _fail(self, trial: FrozenTrial) -> bool:
        try:
            self._study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
        except UpdateFinishedTrialError:  # another worker was faster
            return False
        get_logger(__name__).warning("Trial %d lost its worker and does not count.", trial.number)
        return True
