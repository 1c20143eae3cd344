"""Models and runs small enough for tests."""

from dataclasses import replace
from pathlib import Path

import torch

from relational_transformer.lobster import (
    BaselineSettings,
    LobsterConfig,
    LobsterProtocol,
    LobsterTrainer,
    RelationalSettings,
)
from relational_transformer.lobster.settings import ModelName, Settings
from relational_transformer.runs.run_folder import RunFolder

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


def run_to_the_end(config: LobsterConfig, path: Path) -> tuple[LobsterTrainer, dict]:
    folder = RunFolder(path)
    with folder.opened(config.as_dict()):
        trainer = LobsterTrainer(config, folder, CPU)
        for _ in trainer.run():
            pass
        return trainer, trainer.finish()
