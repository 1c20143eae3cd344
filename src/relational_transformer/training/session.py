"""Runs from start to result: checkpoints by the clock, clean stops on signals, several fleets on one device."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, Protocol, TypeVar

import torch

from relational_transformer.reasoning.build import build_network

from .config import TrainConfig
from .run_folder import RunFolder
from .trainer import Trainer

Report = Callable[[Trainer], None]


class Stopped(KeyboardInterrupt):
    """A signal asked the run to stop; what was done is saved."""


def train(
    config: TrainConfig,
    out: str,
    device: torch.device,
    *,
    report: Report = lambda trainer: None,
    checkpoint_seconds: float = 60.0,
    report_seconds: float = 1.0,
) -> dict[str, Any]:
    """Train one fleet in the folder `out`, or go on with it, and return its result.

    A run that has its result already is not run again.
    """
    (result,) = train_together(
        [(config, out)],
        device,
        report=report,
        checkpoint_seconds=checkpoint_seconds,
        report_seconds=report_seconds,
    )
    return result


def train_together(
    runs: Sequence[tuple[TrainConfig, str]],
    device: torch.device,
    *,
    report: Report = lambda trainer: None,
    checkpoint_seconds: float = 60.0,
    report_seconds: float = 1.0,
) -> list[dict[str, Any]]:
    """Train several fleets side by side, part by part, and return their results.

    On CUDA each has a stream of its own and goes at its own pace, so that small fleets fill the device together.
    `report` is called with a trainer about every `report_seconds`.
    """
    for config, _ in runs:  # what cannot be built is refused before a folder is made
        build_network(config.task, config.settings)
    return carry_out(
        runs,
        lambda config, folder: Trainer(config, folder, device),
        report=report,
        checkpoint_seconds=checkpoint_seconds,
        report_seconds=report_seconds,
    )


class AnyConfig(Protocol):
    """What a run was asked for, as its folder keeps it."""

    def as_dict(self) -> dict[str, Any]: ...


class AnyTrainer(Protocol):
    """What trains a run, of whatever experiment: part by part, ready to be saved between two parts."""

    folder: RunFolder

    @property
    def busy(self) -> bool:
        """Whether the device has enough to do for now."""
        ...

    @property
    def examples(self) -> int:
        """How far the run is."""
        ...

    def run(self) -> Iterator[None]: ...
    def save(self) -> None: ...
    def finish(self) -> dict[str, Any]: ...


ConfigType = TypeVar("ConfigType", bound=AnyConfig)
TrainerType = TypeVar("TrainerType", bound=AnyTrainer)


def carry_out(
    runs: Sequence[tuple[ConfigType, str]],
    make_trainer: Callable[[ConfigType, RunFolder], TrainerType],
    *,
    report: Callable[[TrainerType], None],
    checkpoint_seconds: float,
    report_seconds: float,
) -> list[dict[str, Any]]:
    """Begin or go on with every run in its folder, side by side, to their results.

    A run that has its result is left alone. Every `checkpoint_seconds`, and when a signal asks to stop, all are saved.
    """
    results: list[dict[str, Any] | None] = [None] * len(runs)
    with ExitStack() as stack, _stop_signals() as stop:
        working: dict[int, tuple[TrainerType, Iterator[None]]] = {}
        for number, (config, out) in enumerate(runs):
            folder = stack.enter_context(RunFolder(out).opened(config.as_dict()))
            results[number] = folder.read_result()
            if results[number] is None:
                trainer = make_trainer(config, folder)
                working[number] = trainer, trainer.run()
        saved = reported = time.monotonic()
        while working:
            ready = [number for number, (trainer, _) in working.items() if not trainer.busy]
            if not ready:
                time.sleep(0.001)
            for number in ready:
                trainer, parts = working[number]
                if next(parts, StopIteration) is StopIteration:
                    report(trainer)
                    results[number] = trainer.finish()
                    del working[number]
            now = time.monotonic()
            if now - reported >= report_seconds:
                for trainer, _ in working.values():
                    report(trainer)
                reported = now
            if stop or now - saved >= checkpoint_seconds:
                for trainer, _ in working.values():
                    trainer.save()
                saved = time.monotonic()
            if stop and working:
                where = ", ".join(
                    f"{trainer.folder.path} at example {trainer.examples}" for trainer, _ in working.values()
                )
                raise Stopped(f"stopped by {stop[0]}, saved {where}; the same command goes on from there")
    return [result for result in results if result is not None]


@contextmanager
def _stop_signals() -> Iterator[list[str]]:
    """A list that names the signal as soon as SIGINT or SIGTERM came; the second one acts at once."""
    received: list[str] = []
    before = {}

    def note(number: int, frame: FrameType | None) -> None:
        received.append(signal.Signals(number).name)
        signal.signal(number, before[number])

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
