"""A run from start to result: checkpoints by the clock, a clean stop on signals."""

from collections.abc import Callable
from typing import Any

import torch

from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.session import carry_out

from .config import SokobanConfig
from .splits import Splits, remember_folder, remembered_folder
from .trainer import SokobanTrainer

Report = Callable[[SokobanTrainer], None]


def train(
    config: SokobanConfig,
    out: str,
    device: torch.device,
    *,
    levels: Splits | None = None,
    report: Report = lambda trainer: None,
    checkpoint_seconds: float = 60.0,
    report_seconds: float = 1.0,
) -> dict[str, Any]:
    """Train one fleet in the folder `out`, or go on with it, and return its result.

    `levels` are those that `config` tells of, if they are not generated: `load_splits(folder, config.test_levels)`. Not
    given, they are read again from the folder that the run had them from. A run that has its result already is not run
    again. `report` is called about every `report_seconds`.

    >>> from relational_transformer.sokoban import RECIPES
    >>> config = SokobanConfig("rt", RECIPES["batched"], seeds=(0, 1))
    >>> result = train(config, "runs/sokoban-rt", torch.device("cuda"))  # doctest: +SKIP
    """
    with torch.device("meta"):  # what cannot be built is refused before a folder is made
        config.build()
    has_result = RunFolder(out).result.is_file()
    splits = None if has_result else _find_levels(config, RunFolder(out), levels)

    def make_trainer(config: SokobanConfig, folder: RunFolder) -> SokobanTrainer:
        found = splits or _find_levels(config, folder, levels)
        if found.folder is not None:
            remember_folder(folder, found.folder)
        return SokobanTrainer(config, folder, device, found)

    (result,) = carry_out(
        [(config, out)],
        make_trainer,
        report=report,
        checkpoint_seconds=checkpoint_seconds,
        report_seconds=report_seconds,
    )
    return result


def _find_levels(config: SokobanConfig, folder: RunFolder, given: Splits | None) -> Splits:
    if given is None:
        return config.load_both(remembered_folder(folder))
    if config.levels is None:
        raise ValueError("levels are given, but the configuration is one of generated levels")
    for split in ("test", "train"):
        config.levels.check(split, getattr(given, split), str(given.folder or "those given"))
    return given
