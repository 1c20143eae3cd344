"""CLRS-30 runs from start to result."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from relational_transformer.reasoning.build import build_network
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.session import carry_out
from relational_transformer.runs.side_by_side import blaming

from .config import TrainConfig
from .trainer import Trainer

Report = Callable[[Trainer], None]


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
    at_once: int | None = None,
    report: Report = lambda trainer: None,
    checkpoint_seconds: float = 60.0,
    report_seconds: float = 1.0,
) -> list[dict[str, Any]]:
    """Train several fleets side by side, a few steps of each in turn, and return their results.

    On CUDA each has a stream of its own and goes at its own pace, so that small fleets fill the device together; while
    one is compiled or tested, the others train. At most `at_once` are under way, all of them by default; when one has
    ended, the next begins. `report` is called with a trainer about every `report_seconds`.
    """
    for config, out in runs:  # what cannot be built is refused before a folder is made
        with blaming(RunFolder(out)):
            build_network(config.task, config.settings)
    return carry_out(
        runs,
        lambda config, folder: Trainer(config, folder, device),
        at_once=at_once,
        aside=device.type == "cuda",
        report=report,
        checkpoint_seconds=checkpoint_seconds,
        report_seconds=report_seconds,
    )
