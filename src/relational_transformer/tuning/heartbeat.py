"""Heartbeats: while a trial runs, its worker writes the time into it regularly.

Optuna has heartbeats for databases only. These also work with journal files.
"""

import time
from threading import Event, Thread
from types import TracebackType

from optuna import Trial
from optuna.exceptions import UpdateFinishedTrialError
from optuna.logging import get_logger

from relational_transformer.passwords import hide_passwords

ATTRIBUTE = "heartbeat"
INTERVAL_SECONDS = 30.0


class Heartbeat:
    """A context in which a thread writes the time into the trial every `interval` seconds.

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
            except UpdateFinishedTrialError:  # another worker has failed the trial
                return
            except Exception as error:  # the storage may answer at the next beat
                said = hide_passwords(str(error))
                get_logger(__name__).warning("No heartbeat for trial %d: %s", self._trial.number, said)
