"""How fast a run gets on just now."""

import time
from collections import deque
from collections.abc import Callable


class Pace:
    """Steps, or examples, a second over the last minute or so.

    What took long at the beginning, such as compiling, is forgotten, and what changes is seen: another run that has
    begun on the same device. Where steps come seldom, the last two count, however far apart.

    >>> clock = iter([0.0, 50.0, 60.0, 70.0, 130.0]).__next__
    >>> pace = Pace(0, clock=clock)
    >>> [pace.per_second(done) for done in (0, 100, 200, 800)]
    [0.0, 1.6666666666666667, 2.857142857142857, 10.0]
    """

    def __init__(self, done: float, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self.clock = seconds, clock
        self._changes = deque([(clock(), done)])

    def per_second(self, done: float) -> float:
        """The pace, now that so much is done."""
        now = self.clock()
        if done != self._changes[-1][1]:
            self._changes.append((now, done))
        while len(self._changes) > 2 and self._changes[1][0] <= now - self.seconds:
            self._changes.popleft()
        (since, before), (until, after) = self._changes[0], self._changes[-1]
        return (after - before) / (until - since) if until > since else 0.0
