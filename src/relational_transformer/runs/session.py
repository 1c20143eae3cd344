"""Runs from start to result: checkpoints by the clock, clean stops on signals, several fleets on one device."""

import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, Protocol, TypeVar


from .run_folder import RunFolder
from .side_by_side import AnyTrainer, Queued, SideBySide, TrainerType, blaming


class Stopped(KeyboardInterrupt):
    """A signal asked the run to stop; what was done is saved."""


class AnyConfig(Protocol):
    """What a run was asked for, as its folder keeps it."""

    def as_dict(self) -> dict[str, Any]: ...


ConfigType = TypeVar("ConfigType", bound=AnyConfig)


def carry_out(
    runs: Sequence[tuple[ConfigType, str]],
    make_trainer: Callable[[ConfigType, RunFolder], TrainerType],
    *,
    at_once: int | None = None,
    aside: bool = False,
    report: Callable[[TrainerType], None],
    checkpoint_seconds: float,
    report_seconds: float,
) -> list[dict[str, Any]]:
    """Begin or go on with every run in its folder, `at_once` of them side by side, to their results.

    A run that has its result is left alone. Every `checkpoint_seconds`, and when a signal asks to stop or a run fails,
    all others are saved. For `aside` see `SideBySide`.
    """
    check_checkpoint_seconds(checkpoint_seconds)
    together: SideBySide[TrainerType] | None = None
    with ExitStack() as stack, _stop_signals(lambda: together is not None and together.tests_here) as stop:
        folders = [RunFolder(out) for _, out in runs]
        before: dict[int, dict[str, Any]] = {}
        for number, ((config, _), folder) in enumerate(zip(runs, folders, strict=True)):
            with blaming(folder):
                stack.enter_context(folder.opened(config.as_dict()))
                if (result := folder.read_result()) is not None:
                    if not isinstance(result.get("seeds"), list):
                        raise ValueError(f"{folder.result} tells of no seeds; delete it to test the run again")
                    before[number] = result
        queue = [
            Queued(number, folder, partial(make_trainer, config, folder))
            for number, ((config, _), folder) in enumerate(zip(runs, folders, strict=True))
            if number not in before
        ]
        together = SideBySide(queue, at_once or len(runs), aside=aside, report=report)
        saved = reported = time.monotonic()
        with together:
            while not together.has_ended:
                try:
                    together.advance()
                except Stopped:  # in the middle of a test, whose run is saved
                    _save_all(together.trainers.values())
                    raise Stopped(_last_words(stop[0], together.trainers.values())) from None
                except Exception:
                    with suppress(Exception):  # a device that has failed saves nothing
                        _save_all(together.trainers.values())
                    raise
                now = time.monotonic()
                if now - reported >= report_seconds:
                    for trainer in together.trainers.values():
                        report(trainer)
                    reported = now
                if stop and not together.has_ended:
                    _save_all(together.trainers.values())
                    raise Stopped(_last_words(stop[0], together.trainers.values()))
                if now - saved >= checkpoint_seconds:
                    for trainer in together.trainers.values():
                        trainer.save_soon()
                    saved = now
    results = before | together.results
    return [results[number] for number in range(len(runs))]


def check_checkpoint_seconds(seconds: float) -> None:
    """Refuse what is no time between two checkpoints."""
    if not 0 <= seconds < math.inf:
        raise ValueError(f"checkpoint-seconds must be a number from 0 on, got {seconds:g}")


def _save_all(trainers: Iterable[AnyTrainer]) -> None:
    """Save all that can be saved; then tell of the first that cannot."""
    errors: list[Exception] = []
    for trainer in trainers:
        try:
            with blaming(trainer.folder):
                trainer.save()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _last_words(signal_name: str, trainers: Iterable[AnyTrainer]) -> str:
    where = ", ".join(f"{trainer.folder.path} at example {trainer.examples}" for trainer in trainers)
    return f"stopped by {signal_name}, saved {where or 'all that was done'}; the same command goes on from there"


@contextmanager
def _stop_signals(acts_at_once: Callable[[], bool]) -> Iterator[list[str]]:
    """A list that names the signal as soon as SIGINT or SIGTERM came; the second one acts at once, and so does the
    first where it may."""
    received: list[str] = []
    before = {}

    def note(number: int, frame: FrameType | None) -> None:
        received.append(signal.Signals(number).name)
        signal.signal(number, before[number])
        if acts_at_once():
            raise Stopped

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.getsignal(number)
            signal.signal(number, note)
    except ValueError:  # not the main thread: signals are somebody else's
        pass
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
