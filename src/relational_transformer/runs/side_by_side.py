"""Several runs side by side: a queue of them, so many at once, and those that train do not wait for one that begins."""

import gc
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Self

from relational_transformer.fleet.graphs import MemoryTakenError

from .run_folder import RunFolder
from .trainer import Trainer

SECONDS_BETWEEN_THREADS = 1e-4
"""How long Python lets a thread compute while another wants to go on. Its default, 5 ms, may be waited for after every
launch: beside a thread that computes, 80 calls of 1 ms took 680 ms, and with this 280 (on two cores that had other work
too)."""


class Queued(NamedTuple):
    """A run that is to come: its place among the results, its folder, what makes its trainer, and whether it may begin
    by now."""

    number: int
    folder: RunFolder
    make_trainer: Callable[[], Trainer]
    is_ready: Callable[[], bool] = lambda: True


class SideBySide:
    """Trains runs of a queue, at most `at_once` at a time; when one has its result, the next that is ready begins. One
    for which others have left too little memory begins when another has ended.

    A run takes long to begin (its data, compiling, recording) and to end (its test). With `aside` both are done in a
    thread, one after the other, as long as there are others, which take their turns meanwhile. While torch compiles in
    one thread it takes what others call for a part of that, so `aside` is for trainers whose turns after the first do
    not call the model: on CUDA they launch what was recorded.

    Attributes:
        trainers: of the runs that train now, by number; each between two turns.
        results: of the runs that have ended, by number.
        tests_here: whether a run is being tested in this thread: it is saved, and may be interrupted.
    """

    def __init__(
        self,
        queue: Sequence[Queued],
        at_once: int,
        *,
        aside: bool,
        report: Callable[[Trainer], None],
    ) -> None:
        self.at_once, self.report = at_once, report
        self.trainers: dict[int, Trainer] = {}
        self.results: dict[int, dict[str, Any]] = {}
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
        """Waits for what is done aside."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
        sys.setswitchinterval(self._switch_interval)

    @property
    def has_ended(self) -> bool:
        """Whether all runs have their results."""
        return not (self._waiting or self._jobs or self.trainers)

    def advance(self) -> None:
        """Give every run that is ready for it one turn, no more; begin and end runs as it comes."""
        for number in [number for number, (future, _) in self._jobs.items() if future.done()]:
            future, then = self._jobs.pop(number)
            with self._told_of(number):
                then(number, future.result())
        ready = [number for number, trainer in self.trainers.items() if not trainer.busy]
        for number in ready:
            with self._told_of(number):
                if self.trainers[number].has_failed or next(self._turns[number], StopIteration) is StopIteration:
                    self._end(number)
        if (queued := self._next()) is not None:
            self._waiting.remove(queued)
            with self._told_of(queued.number):
                self._do(queued.number, lambda: _begin(queued.make_trainer), partial(self._go_on, queued))
        elif not ready:
            time.sleep(0.001)

    def _next(self) -> Queued | None:
        """The run to begin now."""
        if self._jobs or len(self.trainers) >= self.at_once:
            return None
        return next((one for one in self._waiting if one.number not in self._too_large and one.is_ready()), None)

    def _go_on(self, queued: Queued, number: int, begun: "Begun | MemoryTakenError") -> None:
        if not isinstance(begun, MemoryTakenError):
            self.trainers[number], self._turns[number] = begun
            return
        if not (self.trainers or self._jobs):
            raise begun
        self._waiting.appendleft(queued)
        self._too_large.add(number)

    def _keep_result(self, number: int, result: dict[str, Any]) -> None:
        self.results[number] = result
        self._too_large.clear()

    def _end(self, number: int) -> None:
        trainer = self.trainers.pop(number)
        del self._turns[number]
        trainer.save()  # here: whoever is stopped now need not wait for the test to be saved
        self.report(trainer)
        self.tests_here = self._thread_aside is None
        self._do(number, trainer.finish, self._keep_result)
        self.tests_here = False

    def _do(self, number: int, job: Callable[[], Any], then: Callable[[int, Any], None]) -> None:
        """Do something long for a run: aside where others may go on meanwhile, else here."""
        if self._thread_aside is not None:
            self._jobs[number] = self._thread_aside.submit(job), then
        else:
            then(number, job())

    @property
    def _thread_aside(self) -> ThreadPoolExecutor | None:
        """The thread, while there are runs that may go on beside it."""
        return self._thread if self.trainers or self._jobs else None

    @contextmanager
    def _told_of(self, number: int) -> Iterator[None]:
        """An error says which run it comes from, which is then in the middle of a turn, and none of `trainers`."""
        try:
            with blaming(self._folders[number]):
                yield
        except Exception:
            self.trainers.pop(number, None)
            raise


def words_of_blame(folder: RunFolder) -> str:
    """What an error says of the run that it comes from, in a line of its own."""
    return f"while training {folder.path}"


@contextmanager
def blaming(folder: RunFolder) -> Iterator[None]:
    """An error in here comes from the run in this folder, and says so."""
    try:
        yield
    except Exception as error:
        error.add_note(words_of_blame(folder))
        raise


Begun = tuple[Trainer, Iterator[None]]
"""A trainer with its first turn behind it, for which all is compiled and recorded, and the turns to come."""


def _begin(make_trainer: Callable[[], Trainer]) -> Begun | MemoryTakenError:
    """Begin a run, or say why it has to wait."""
    gc.collect()  # engines that have ended are in cycles, with the memory of their graphs
    try:
        trainer = make_trainer()
        turns = trainer.run()
        next(turns, None)
    except MemoryTakenError as error:
        return error.with_traceback(None)  # which would keep the trainer
    return trainer, turns
