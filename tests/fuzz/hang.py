"""Giving up what does not answer."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Hang(BaseException):
    """No Exception, so that nothing takes it for an answer."""


@contextmanager
def no_longer_than(seconds: int) -> Iterator[None]:
    """Hang is raised in here after so many seconds."""

    def give_up(*_: object) -> None:
        raise Hang(f"no answer in {seconds} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
