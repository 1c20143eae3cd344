"""A run from start to result: checkpoints by the clock, a clean stop on signals."""

from collections.abc import Callable
from typing import Any

import torch

from relational_transformer.training.session import carry_out

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
    (result,) = carry_out(
        [(config, out)],
        lambda config, folder: SokobanTrainer(config, folder, device),
        report=report,
        checkpoint_seconds=checkpoint_seconds,
        report_seconds=report_seconds,
    )
    return result
