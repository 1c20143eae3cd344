"""A run from start to result: checkpoints by the clock, a clean stop on signals."""

import time
from collections.abc import Callable
from typing import Any

import torch

from relational_transformer.training.run_folder import RunFolder
from relational_transformer.training.session import Stopped, _stop_signals

from .config import SokobanConfig
from .trainer import SokobanTrainer

Report = Callable[[SokobanTrainer], None]


def train(
    config: SokobanConfig,
    out: str,
    device: torch.device,
    *,
    report: Report = lambda trainer: None,
    checkpoint_seconds: float = 60.0,
    report_seconds: float = 1.0,
) -> dict[str, Any]:
    """Train one fleet in the folder `out`, or go on with it, and return its result.

    A run that has its result already is not run again. `report` is called about every `report_seconds`.

    >>> from relational_transformer.sokoban import RECIPES
    >>> config = SokobanConfig("rt", RECIPES["batched"], seeds=(0, 1))
    >>> result = train(config, "runs/sokoban-rt", torch.device("cuda"))  # doctest: +SKIP
    """
    with torch.device("meta"):  # what cannot be built is refused before a folder is made
        config.build()
    if config.levels is not None:
        config.load("test")
    with RunFolder(out).opened(config.as_dict()) as folder, _stop_signals() as stop:
        result = folder.read_result()
        if result is not None:
            return result
        trainer = SokobanTrainer(config, folder, device)
        saved = reported = time.monotonic()
        for _ in trainer.run():
            while trainer.busy:
                time.sleep(0.001)
            now = time.monotonic()
            if now - reported >= report_seconds:
                report(trainer)
                reported = now
            if stop or now - saved >= checkpoint_seconds:
                trainer.save()
                saved = time.monotonic()
            if stop:
                raise Stopped(
                    f"stopped by {stop[0]}, saved {folder.path} at step {trainer.examples}; "
                    "the same command goes on from there"
                )
        report(trainer)
        return trainer.finish()
