"""The progress of a run and its current speed."""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """The progress of a run: examples seen, and losses and scores of every seed, NaN before the first validation.

    >>> half = Progress(500, 1000, [0.3], [0.9], best=[0.9], finite=[True], examples_per_second=50.0)
    >>> half.seconds_left
    10.0
    """

    examples: int
    total_examples: int
    losses: list[float]
    validation: list[float]
    best: list[float]
    finite: list[bool]
    examples_per_second: float

    @property
    def seconds_left(self) -> float:
        left = (self.total_examples - self.examples) * len(self.losses)
        return left / self.examples_per_second if self.examples_per_second else math.nan


MINUTE = 60.0
"""In seconds."""


class Pace:
    """Steps or examples per second over about the last minute.

    A moving average forgets slow phases, such as compiling, and follows changes, such as another run on the same
    device. Where updates are rare, the average is over the last two.

    >>> clock = iter([0.0, 50.0, 60.0, 70.0, 130.0]).__next__
    >>> pace = Pace(0, clock=clock)
    >>> [pace.per_second(done) for done in (0, 100, 200, 800)]
    [0.0, 1.6666666666666667, 2.857142857142857, 10.0]
    """

    def __init__(self, done: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._changes = deque([(clock(), done)])

    def per_second(self, done: float) -> float:
        """The current speed, given the total that is done so far."""
        now = self.clock()
        if done != self._changes[-1][1]:
            self._changes.append((now, done))
        while len(self._changes) > 2 and self._changes[1][0] <= now - MINUTE:
            self._changes.popleft()
        (since, before), (until, after) = self._changes[0], self._changes[-1]
        return (after - before) / (until - since) if until > since else 0.0
