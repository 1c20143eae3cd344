"""Several runs on one device: a queue, a limit on those at a time, and no waiting for runs that begin or end."""

import gc
import logging
import math
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Self

import torch

from relational_transformer.fleet.graphs import MemoryTakenError

from .run_folder import RunFolder
from .trainer import Trainer

log = logging.getLogger(__name__)

SECONDS_BETWEEN_THREADS = 1e-4
"""Python's switch interval: how long a thread may compute while another one waits. Under the default of 5 ms, a thread
that launches kernels may wait as long after every launch: beside a thread that computes, 80 calls of 1 ms took 680 ms,
and with this value 280 ms."""


class Queued(NamedTuple):
    """A run that has not begun: its position among the results, its folder, what makes its trainer, and whether it may
    begin by now."""

    number: int
    folder: RunFolder
    make_trainer: Callable[[], Trainer]
    is_ready: Callable[[], bool] = lambda: True


class SideBySide:
    """Trains the runs of a queue, at most `at_once` at a time. When one has its result, the next that is ready begins.
    A run for which others have left too little memory begins when another has ended. With `goes_on`, a run that fails
    does not end the others, unless the device has failed. After `begin_until` (`time.time()`), no run begins.

    A run takes long to begin (loading data, compiling, capturing graphs) and to end (its test). With `aside`, a thread
    does this for one run after the other, while the other runs train. The model must not be called in another thread
    while torch compiles, so `aside` is for trainers that, after their first turn, only replay captured CUDA graphs. A
    turn that captures again (`Trainer.must_capture`) is made in the thread, too.

    Attributes:
        trainers: the trainers of the runs under way, by number.
        results: the results of the runs that have ended, by number.
        errors: the errors of the runs that have failed, by number.
        tests_here: whether a run is being tested in this thread; it is saved, so it may be interrupted.
    """

    def __init__(
        self,
        queue: Sequence[Queued],
        at_once: int,
        *,
        aside: bool,
        report: Callable[[Trainer], None],
        goes_on: bool = False,
        begin_until: float = math.inf,
    ) -> None:
        self.at_once, self.report, self.goes_on, self.begin_until = at_once, report, goes_on, begin_until
        self.trainers: dict[int, Trainer] = {}
        self.results: dict[int, dict[str, Any]] = {}
        self.errors: dict[int, Exception] = {}
        self.tests_here = False
        self._waiting = deque(queue)
        self._too_large: set[int] = set()
        self._folders = {queued.number: queued.folder for queued in queue}
        self._turns: dict[int, Iterator[None]] = {}
        self._jobs: dict[int, tuple[Future[Any], Callable[[int, Any], None]]] = {}
        self._thread = ThreadPoolExecutor(1) if aside else None

    def __enter__(self) -> Self:
        self._switch_interval = sys.getswitchinterval()
        if self._thread is not None:
            sys.setswitchinterval(SECONDS_BETWEEN_THREADS)
        return self

    def __exit__(self, *error: object) -> None:
        """Wait for the thread."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
        sys.setswitchinterval(self._switch_interval)

    @property
    def has_ended(self) -> bool:
        """Whether no run is under way, and none may begin."""
        return not (self._waiting or self._jobs or self.trainers)

    def advance(self) -> None:
        """Give one turn to every run that is ready for it; begin the next run and end runs that are done."""
        for number in [number for number, (future, _) in self._jobs.items() if future.done()]:
            future, then = self._jobs.pop(number)
            with self._told_of(number):
                then(number, future.result())
        ready = [number for number, trainer in self.trainers.items() if not trainer.busy]
        for number in ready:
            with self._told_of(number):
                if self.trainers[number].must_capture:
                    self._capture(number)
                elif self.trainers[number].has_failed or next(self._turns[number], StopIteration) is StopIteration:
                    self._end(number)
        if (queued := self._next()) is not None:
            self._waiting.remove(queued)
            with self._told_of(queued.number):
                self._do(queued.number, lambda: _begin(queued.make_trainer), partial(self._go_on, queued))
        elif not ready:
            time.sleep(0.001)

    def _next(self) -> Queued | None:
        """The run to begin now."""
        if time.time() > self.begin_until:
            self._waiting.clear()
        if self._jobs or len(self.trainers) >= self.at_once:
            return None
        return next((one for one in self._waiting if one.number not in self._too_large and one.is_ready()), None)

    def _go_on(self, queued: Queued, number: int, begun: "Begun | Exception") -> None:
        if not isinstance(begun, Exception):
            self._take(number, begun)
            return
        if not (self.trainers or self._jobs):
            raise begun
        self._waiting.appendleft(queued)
        self._too_large.add(number)

    def _keep_result(self, number: int, result: dict[str, Any]) -> None:
        self.results[number] = result
        self._too_large.clear()

    def _capture(self, number: int) -> None:
        """Give a run a turn that captures."""
        trainer, turns = self.trainers.pop(number), self._turns.pop(number)
        trainer.save()  # so that a signal need not wait for it

        def turn() -> Begun:
            next(turns)
            return trainer, turns

        self._do(number, turn, self._take)

    def _take(self, number: int, begun: "Begun") -> None:
        self.trainers[number], self._turns[number] = begun

    def _end(self, number: int) -> None:
        trainer = self.trainers.pop(number)
        del self._turns[number]
        trainer.save()  # before the test, so that a signal need not wait for the test
        self.report(trainer)
        self.tests_here = self._thread_aside is None
        self._do(number, trainer.finish, self._keep_result)
        self.tests_here = False

    def _do(self, number: int, job: Callable[[], Any], then: Callable[[int, Any], None]) -> None:
        """Do something long for a run: in the thread if other runs can train meanwhile, else here."""
        if self._thread_aside is not None:
            self._jobs[number] = self._thread_aside.submit(job), then
        else:
            then(number, job())

    @property
    def _thread_aside(self) -> ThreadPoolExecutor | None:
        """The thread, if there are runs that can train beside it."""
        return self._thread if self.trainers or self._jobs else None

    @contextmanager
    def _told_of(self, number: int) -> Iterator[None]:
        """Note the run in an error that it raises, and drop its trainer, which is in the middle of a turn."""
        try:
            with blaming(self._folders[number]):
                yield
        except Exception as error:
            self.trainers.pop(number, None)
            self._turns.pop(number, None)
            if not self.goes_on or isinstance(error, torch.AcceleratorError):
                raise
            log.exception("%s has failed; the others go on", self._folders[number].path)
            self.errors[number] = let_go(error)
            self._too_large.clear()


def let_go(error: Exception) -> Exception:
    """An error without a traceback, which would keep objects, and so memory of a device."""
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:  # causes and contexts may go in a circle
        seen.add(id(cause))
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__cause__ or cause.__context__
    return error.with_traceback(None)


def words_of_blame(folder: RunFolder) -> str:
    """The note on an error that names the run it comes from."""
    return f"while training {folder.path}"


@contextmanager
def blaming(folder: RunFolder) -> Iterator[None]:
    """Note on errors raised inside that they come from the run in this folder."""
    try:
        yield
    except Exception as error:
        error.add_note(words_of_blame(folder))
        raise


NO_MEMORY = (MemoryTakenError, torch.OutOfMemoryError)
"""What a run raises that cannot begin because others hold the memory that it needs."""

Begun = tuple[Trainer, Iterator[None]]
"""A trainer after its first turn, which compiles and captures everything, and the turns that follow."""


def _begin(make_trainer: Callable[[], Trainer]) -> Begun | Exception:
    """Begin a run, or say why it has to wait."""
    gc.collect()  # trainers that have ended are in reference cycles, with the memory of their graphs
    try:
        trainer = make_trainer()
        turns = trainer.run()
        next(turns, None)
    except NO_MEMORY as error:
        return let_go(error)
    return trainer, turns
