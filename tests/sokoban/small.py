"""Levels, agents and runs small enough for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from relational_transformer.runs import RunFolder, Trainer, train
from relational_transformer.sokoban import (
    AgentSettings,
    Levels,
    Recipe,
    SokobanConfig,
    SokobanTask,
    Splits,
    load_splits,
)

CORRIDOR = """; 0
######
#@ $.#
######
"""
LONG_CORRIDOR = """; 0
##########
#@  $   .#
##########
"""
ROOMS = """; 0
#######
# .   #
# $ # #
# @ $.#
#######

; 1
#######
#  .  #
# $ $.#
#@    #
#######
"""
SETTINGS = AgentSettings(
    size=16, num_layers=2, num_heads=2, memo_size=12, decision_size=24, edge_size=6, edge_hidden_sizes=(5, 3)
)


def rows_of(levels: Levels, number: int) -> list[str]:
    """A level as rows of text."""
    return levels[number].as_text().splitlines()[1:11]


def write_levels(folder: Path, text: str = ROOMS) -> str:
    """A Boxoban folder with the same levels to train and to test on."""
    for split in ("train", "test"):
        (folder / split).mkdir(parents=True)
        (folder / split / "000.txt").write_text(text)
    return str(folder)


def small_config(folder: str, *, model: str = "transformer", recipe: Recipe | None = None, **rest) -> SokobanConfig:
    recipe = recipe or Recipe(num_games=3, window=4, learning_rate=1e-3, steps=480, report_interval=120)
    options = {"settings": SETTINGS, "compile": "off", "precision": "fp32", **rest}
    levels = load_splits(folder, SokobanConfig.test_levels).identity
    return SokobanConfig(model, recipe, levels=levels, **options)  # pyright: ignore[reportArgumentType]


def train_run(config: SokobanConfig, out: Path | str, levels: Splits | None = None, **options) -> dict:
    return train(SokobanTask(config, levels=levels), out, torch.device("cpu"), **options)


@contextmanager
def open_trainer(config: SokobanConfig, run: Path, levels: str, device: str = "cpu") -> Iterator[Trainer]:
    """A trainer in its folder, which is locked meanwhile."""
    folder = RunFolder(run)
    with folder.opened(config.as_dict()):
        yield Trainer(SokobanTask(config, levels), folder, torch.device(device))


def run_to_the_end(config: SokobanConfig, run: Path, levels: str) -> tuple[Trainer, dict]:
    with open_trainer(config, run, levels) as trainer:
        for _ in trainer.run():
            pass
        return trainer, trainer.finish()
