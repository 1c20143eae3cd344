"""Trials whose worker was killed: noticed by the other workers, and marked as failed."""

import shutil
import time
from collections.abc import Callable, Iterable
from typing import Any

from optuna import Study
from optuna.exceptions import UpdateFinishedTrialError
from optuna.logging import get_logger
from optuna.trial import FrozenTrial, TrialState

from . import heartbeat
from .workplace import ATTRIBUTE, abandoned

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
        failed = []
        trials = self._study.get_trials(deepcopy=False)
        claims = {str(claim): claim for trial in trials if (claim := trial.user_attrs.get(ATTRIBUTE))}
        for claim in claims.values():
            with abandoned(claim) as folder:
                if folder is not None:
                    # Its last trial may have begun since the first look; now that it is dead, it begins no other.
                    failed += self._fail(trial for trial in self._running() if trial.user_attrs.get(ATTRIBUTE) == claim)
                    shutil.rmtree(folder, ignore_errors=True)  # a link in it is removed, not followed
        return failed + self._fail(self._silent())

    def _silent(self) -> list[FrozenTrial]:
        now, running = self._clock(), self._running()
        before, self._seen = self._seen, {}
        for trial in running:
            beat = trial.user_attrs.get(heartbeat.ATTRIBUTE)
            last, since = before.get(trial.number, (beat, now))
            self._seen[trial.number] = (beat, since if beat == last else now)
        return [trial for trial in running if now - self._seen[trial.number][1] > self._grace]

    def _running(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))

    def _fail(self, trials: Iterable[FrozenTrial]) -> list[int]:
        failed = []
        for trial in trials:
            try:
                self._study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
            except UpdateFinishedTrialError:  # another worker was faster
                continue
            get_logger(__name__).warning("Trial %d lost its worker and does not count.", trial.number)
            failed.append(trial.number)
        return failed
