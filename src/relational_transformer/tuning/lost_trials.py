"""Trials whose worker was killed. The other workers detect them and mark them as failed."""

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
"""Seconds without a new heartbeat after which a worker counts as dead: six beats, because networks may pause."""


class LostTrials:
    """The heartbeats of all trials, as one worker has seen them.

    A dead worker of this machine is detected by its folder at once (see `workplace`). Any other counts as dead when its
    heartbeat has not changed for more than `grace` seconds of this worker's clock. Clocks of different machines are
    never compared.

    >>> import optuna
    >>> study = optuna.create_study()
    >>> trial = study.ask()  # no worker runs it
    >>> seconds = iter([0.0, 50.0, 70.0])
    >>> lost = LostTrials(study, grace=60.0, clock=lambda: next(seconds))
    >>> lost.fail(), lost.fail(), lost.fail()
    ([], [], [0])
    """

    def __init__(self, study: Study, grace: float = GRACE_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._study = study
        self._grace = grace
        self._clock = clock
        self._seen: dict[int, tuple[Any, float]] = {}  # trial -> its last heartbeat, and when it was first seen

    def fail(self) -> list[int]:
        """Mark the trials of dead workers as failed, and remove their folders on this machine.

        Returns the trials' numbers. Any worker may do it, at any time.
        """
        failed = []
        trials = self._study.get_trials(deepcopy=False)
        claims = {str(claim): claim for trial in trials if (claim := trial.user_attrs.get(ATTRIBUTE))}
        for claim in claims.values():
            with abandoned(claim) as folder:
                if folder is not None:
                    # The worker may have begun its last trial after the first look. Now that it is dead, it begins no
                    # other.
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
