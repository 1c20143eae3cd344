"""A run from start to result."""

from collections.abc import Callable
from typing import Any

import torch

from relational_transformer.runs.session import carry_out

from .build import build_model
from .config import LobsterConfig
from .trainer import LobsterTrainer

Report = Callable[[LobsterTrainer], None]


def train(
    config: LobsterConfig,
    out: str,
    device: torch.device,
    *,
    report: Report = lambda trainer: None,
    checkpoint_seconds: float = 60.0,
    report_seconds: float = 1.0,
) -> dict[str, Any]:
    """Train one fleet in the folder `out`, or go on with it, and return its result.

    A run that has its result already is not run again. `report` is called about every `report_seconds`.

    >>> import tempfile
    >>> from relational_transformer.lobster import SETTINGS, LobsterProtocol
    >>> protocol = LobsterProtocol(train_examples=64, evaluation_examples=4, test_size=9, examples=64)
    >>> config = LobsterConfig("gcn", SETTINGS["gcn"], protocol, seeds=(0, 1))
    >>> with tempfile.TemporaryDirectory() as out:
    ...     result = train(config, out, torch.device("cpu"))
    >>> [row["seed"] for row in result["seeds"]], result["parameters"]
    ([0, 1], 132933)
    """
    with torch.device("meta"):  # what cannot be built is refused before a folder is made
        build_model(config.model, config.settings)
    (result,) = carry_out(
        [(config, out)],
        lambda config, folder: LobsterTrainer(config, folder, device),
        report=report,
        checkpoint_seconds=checkpoint_seconds,
        report_seconds=report_seconds,
    )
    return result
