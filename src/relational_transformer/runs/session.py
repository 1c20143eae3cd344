"""Runs from start to result: regular checkpoints, clean stops on signals, several fleets on one device."""

import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from .run_folder import RunFolder
from .side_by_side import Queued, SideBySide, blaming
from .task import Task
from .trainer import Trainer

Report = Callable[[Trainer], None]


class Stopped(KeyboardInterrupt):
    """A signal stopped the run; its state is saved."""


def train(
    task: Task[Any],
    out: Path | str,
    device: torch.device,
    *,
    report: Report = lambda trainer: None,
    checkpoint_seconds: float = 60.0,
) -> dict[str, Any]:
    """Train or resume the run in the folder `out`, and return its result.

    A run that already has a result is not trained again. `report` is called with the trainer about every second.

    >>> import tempfile
    >>> from relational_transformer.lobster import SETTINGS, LobsterConfig, LobsterProtocol, LobsterTask
    >>> protocol = LobsterProtocol(train_examples=64, evaluation_examples=4, test_size=9, examples=64)
    >>> config = LobsterConfig("gcn", SETTINGS["gcn"], protocol, seeds=(0, 1))
    >>> with tempfile.TemporaryDirectory() as out:
    ...     result = train(LobsterTask(config), out, torch.device("cpu"))
    >>> [row["seed"] for row in result["seeds"]], result["parameters"]
    ([0, 1], 132933)
    """
    (result,) = train_together([(task, out)], device, report=report, checkpoint_seconds=checkpoint_seconds)
    return result


def train_together(
    runs: Sequence[tuple[Task[Any], Path | str]],
    device: torch.device,
    *,
    at_once: int | None = None,
    aside: bool | None = None,
    is_ready: Callable[[Path], bool] = lambda folder: True,
    goes_on: bool = False,
    begin_until: float = math.inf,
    report: Report = lambda trainer: None,
    checkpoint_seconds: float = 60.0,
    report_seconds: float = 1.0,
) -> list[dict[str, Any]]:
    """Train several runs on one device, each in its folder, a few steps of each in turn. Return their results.

    On CUDA each run has a stream of its own, so that small fleets fill the device together. At most `at_once` runs
    train at a time, all of them by default; when one has ended, the next begins whose folder is ready. If all tasks
    allow it (`Task.only_launches`), the other runs train while one is compiled or tested; `aside` overrides this (see
    `SideBySide`). A checkpoint of every run is written each `checkpoint_seconds`, when a signal stops the session, and
    when another run fails.

    With `goes_on`, the others train to their ends when a run fails, and the error is raised then. Runs that have not
    begun at `begin_until` (as `time.time()` counts) do not begin, and have no result in the list.

    >>> results = train_together([(task, "runs/bfs"), (other, "runs/dfs")], torch.device("cuda"))  # doctest: +SKIP
    """
    check_checkpoint_seconds(checkpoint_seconds)
    if aside is None:
        aside = device.type == "cuda" and all(task.only_launches for task, _ in runs)
    opened = [(task, RunFolder(out)) for task, out in runs]
    for task, folder in opened:
        with blaming(folder):
            if not folder.result.is_file():
                task.check(folder, device)
    together: SideBySide | None = None
    with ExitStack() as stack, _stop_signals(lambda: together is not None and together.tests_here) as stop:
        before: dict[int, dict[str, Any]] = {}
        queue: list[Queued] = []
        for number, (task, folder) in enumerate(opened):
            with blaming(folder):
                stack.enter_context(folder.opened(task.config.as_dict()))
                if (result := folder.read_result()) is None:
                    make_trainer = partial(Trainer, task, folder, device)
                    queue.append(Queued(number, folder, make_trainer, partial(is_ready, folder.path)))
                    continue
                if [row["seed"] for row in result["seeds"]] != list(task.config.seeds):
                    raise ValueError(f"{folder.result} has other seeds; delete it to test the run again")
                before[number] = result
        together = SideBySide(
            queue, at_once or len(runs), aside=aside, report=report, goes_on=goes_on, begin_until=begin_until
        )
        saved = reported = time.monotonic()
        with together:
            while not together.has_ended:
                try:
                    together.advance()
                except Stopped:  # during a test, whose run is saved already
                    _save_all(together.trainers.values())
                    raise Stopped(_last_words(stop[0], together.trainers.values())) from None
                except Exception:
                    with suppress(Exception):  # a device that has failed cannot save
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
    for error in together.errors.values():
        raise error
    results = before | together.results
    return [results[number] for number in sorted(results)]


def check_checkpoint_seconds(seconds: float) -> None:
    """Refuse a negative or infinite time between two checkpoints."""
    if not 0 <= seconds < math.inf:
        raise ValueError(f"checkpoint-seconds must be a finite number of at least 0, got {seconds:g}")


def _save_all(trainers: Iterable[Trainer]) -> None:
    """Save every run that can be saved, then raise the first error."""
    errors: list[Exception] = []
    for trainer in trainers:
        try:
            with blaming(trainer.folder):
                trainer.save()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _last_words(signal_name: str, trainers: Iterable[Trainer]) -> str:
    where = ", ".join(f"{trainer.folder.path} at example {trainer.examples}" for trainer in trainers)
    return f"stopped by {signal_name}, saved {where or 'everything'}; the same command resumes there"


@contextmanager
def _stop_signals(acts_at_once: Callable[[], bool]) -> Iterator[list[str]]:
    """A list to which the name of SIGINT or SIGTERM is added when it arrives. The second signal acts at once, and so
    does the first where `acts_at_once()`."""
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
    except ValueError:  # not the main thread, which alone may handle signals
        pass
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
