"""Models and runs small enough for tests."""

from dataclasses import replace
from pathlib import Path

import torch

from relational_transformer.lobster import (
    BaselineSettings,
    LobsterConfig,
    LobsterProtocol,
    LobsterTask,
    RelationalSettings,
)
from relational_transformer.lobster.settings import ModelName, Settings
from relational_transformer.runs import RunFolder, Trainer, train

RELATIONAL = RelationalSettings(
    num_layers=2, num_heads=2, head_size=4, node_hidden_size=6, edge_size=6, edge_hidden_sizes=(5, 3), output_size=7,
    learning_rate=3e-3, batch_size=8,
)  # fmt: skip
BASELINE = BaselineSettings(num_layers=3, embedding_hidden_size=5, hidden_size=6, batch_size=8)
SMALL: dict[ModelName, Settings] = {"rt": RELATIONAL, "gcn": BASELINE, "gat": BASELINE}
PROTOCOL = LobsterProtocol(
    train_examples=20, smallest_size=4, end_size=10, test_size=14, evaluation_examples=6, examples=96,
    validation_interval=40,
)  # fmt: skip
CPU = torch.device("cpu")


def small_config(model: ModelName = "rt", *, seeds: tuple[int, ...] = (0, 1), **changes) -> LobsterConfig:
    return replace(LobsterConfig(model, SMALL[model], PROTOCOL, seeds, precision="fp32"), **changes)


def make_trainer(config: LobsterConfig, folder: RunFolder, device: str = "cpu") -> Trainer:
    return Trainer(LobsterTask(config), folder, torch.device(device))


def train_run(config: LobsterConfig, out: Path | str, **options) -> dict:
    return train(LobsterTask(config), out, CPU, **options)


def run_to_the_end(config: LobsterConfig, path: Path) -> tuple[Trainer, dict]:
    folder = RunFolder(path)
    with folder.opened(config.as_dict()):
        trainer = make_trainer(config, folder)
        for _ in trainer.run():
            pass
        return trainer, trainer.finish()
