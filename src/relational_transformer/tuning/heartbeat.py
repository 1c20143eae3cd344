"""Signs of life: a trial whose worker was killed is noticed by the others and marked as failed.

Optuna has heartbeats for databases only; these work on every storage, journal files too.
"""

import time
from threading import Event, Thread
from types import TracebackType

from optuna import Study, Trial
from optuna.exceptions import UpdateFinishedTrialError
from optuna.logging import get_logger
from optuna.trial import FrozenTrial, TrialState

ATTRIBUTE = "heartbeat"
INTERVAL_SECONDS = 30.0
GRACE_SECONDS = 600.0
"""A trial silent for this long has lost its worker. Long, because clocks of machines differ and networks pause."""


class Heartbeat:
    """While open, writes the time into the trial every `interval` seconds from a thread of its own.

    >>> import optuna
    >>> trial = optuna.create_study().ask()
    >>> with Heartbeat(trial):
    ...     "heartbeat" in trial.user_attrs
    True
    """

    def __init__(self, trial: Trial, interval: float = INTERVAL_SECONDS) -> None:
        self._trial = trial
        self._interval = interval
        self._stop = Event()
        self._thread = Thread(target=self._beat, name=f"heartbeat of trial {trial.number}", daemon=True)

    def __enter__(self) -> "Heartbeat":
        self._trial.set_user_attr(ATTRIBUTE, time.time())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._stop.wait(self._interval):
            try:
                self._trial.set_user_attr(ATTRIBUTE, time.time())
            except UpdateFinishedTrialError:  # the others took this worker for dead: the trial is lost
                return
            except Exception as error:  # a storage that does not answer now may answer at the next beat
                get_logger(__name__).warning("No heartbeat for trial %d: %s", self._trial.number, error)


def last_sign_of_life(trial: FrozenTrial) -> float:
    """Seconds since the epoch of a trial's last heartbeat, or of its start where there is none yet."""
    if ATTRIBUTE in trial.user_attrs:
        return float(trial.user_attrs[ATTRIBUTE])
    return trial.datetime_start.timestamp() if trial.datetime_start else 0.0


def stale_trials(study: Study, grace: float = GRACE_SECONDS) -> list[FrozenTrial]:
    """Running trials that have been silent for more than `grace` seconds."""
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    now = time.time()
    return [trial for trial in running if now - last_sign_of_life(trial) > grace]


def fail_stale_trials(study: Study, grace: float = GRACE_SECONDS) -> list[int]:
    """Marks the trials of dead workers as failed; returns their numbers. Any worker may do it, at any time.

    >>> import optuna
    >>> study = optuna.create_study()
    >>> trial = study.ask()  # and nobody works on it
    >>> fail_stale_trials(study, grace=60.0), fail_stale_trials(study, grace=-1.0)
    ([], [0])
    """
    failed = []
    for trial in stale_trials(study, grace):
        try:
            study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
        except UpdateFinishedTrialError:  # another worker was faster
            continue
        get_logger(__name__).warning("Trial %d lost its worker and does not count.", trial.number)
        failed.append(trial.number)
    return failed
