"""A sweep: an engine trains runs until each has a result or has failed too often."""

import signal
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Literal

from .engines.engine import Ended, Engine
from .run import Run

ATTEMPTS = 3
"""A run that has failed this often is given up. The other runs continue."""
LOSSES = 20
"""A run is also given up after losing this many machines: it may be the cause."""


@dataclass(frozen=True)
class Event:
    """An event of a run."""

    run: Run
    what: Literal["done", "failed", "lost", "given up", "not begun"]
    detail: str = ""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a sweep: runs that have a result, runs that were given up, with their errors, and runs that the
    engine was not to begin any more."""

    done: tuple[Run, ...]
    given_up: dict[Run, tuple[str, ...]]
    not_begun: tuple[Run, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every run has a result."""
        return not (self.given_up or self.not_begun)


def sweep(
    runs: Sequence[Run],
    engine: Engine,
    *,
    report: Callable[[Event], None] = lambda event: None,
    tick: Callable[[], None] = lambda: None,
    tick_seconds: float = 1.0,
) -> Outcome:
    """Train all runs without a result. Meanwhile, `tick` is called about every `tick_seconds`.

    SIGINT and SIGTERM stop the sweep after all runs have saved a checkpoint. The same sweep then resumes them.

    >>> from relational_transformer.sweeps.engines import LocalEngine
    >>> outcome = sweep(runs, LocalEngine(["cuda:0", "cuda:1"]))  # doctest: +SKIP
    """
    failures: dict[Path, list[str]] = defaultdict(list)
    losses: dict[Path, int] = defaultdict(int)
    given_up: dict[Run, tuple[str, ...]] = {}
    not_begun: list[Run] = []
    open_runs = {run.folder: run for run in runs if not run.is_done}

    def judge(ended: Ended) -> None:
        run = open_runs[ended.run.folder]
        if ended.not_begun:
            not_begun.append(open_runs.pop(run.folder))
            report(Event(run, "not begun"))
            return
        if ended.error is None:
            del open_runs[run.folder]
            report(Event(run, "done"))
            return
        losses[run.folder] += ended.lost
        if not ended.lost:
            failures[run.folder].append(ended.error)
        if len(failures[run.folder]) < ATTEMPTS and losses[run.folder] < LOSSES:
            report(Event(run, "lost" if ended.lost else "failed", ended.error))
            engine.submit(run)
            return
        del open_runs[run.folder]
        given_up[run] = tuple(failures[run.folder]) or (ended.error,)
        report(Event(run, "given up", ended.error))

    with _sigterm_as_interrupt():
        try:
            for run in open_runs.values():
                engine.submit(run)
            while open_runs:
                for ended in engine.wait(tick_seconds):
                    judge(ended)
                tick()
        except KeyboardInterrupt:
            engine.stop()
            message = "stopped, saved everything; the same command resumes there"
            raise KeyboardInterrupt(message) from None
        except BaseException:
            engine.stop()
            raise
    done = tuple(run for run in runs if run not in given_up and run not in not_begun)
    return Outcome(done, given_up, tuple(not_begun))


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, as SIGINT does, so that both are handled in one place."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread, which alone may handle signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
