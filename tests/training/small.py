"""Runs small enough for tests."""

from dataclasses import replace
from pathlib import Path

import torch

from relational_transformer.processors.settings import TUNED, Settings
from relational_transformer.runs import RunFolder, Trainer, train
from relational_transformer.training import CLRSTask, Protocol, TrainConfig

SETTINGS = replace(
    TUNED["rt"],
    hidden_size=8,
    num_heads=2,
    num_layers=1,
    node_hidden_size=6,
    edge_hidden_sizes=(4, 3),
    learning_rate=3e-3,
)
PROTOCOL = Protocol(
    train_examples=20,
    train_nodes=5,
    validation_nodes=5,
    test_nodes=7,
    evaluation_examples=6,
    examples=48,
    validation_interval=12,
)


def small_config(
    *,
    task: str = "bfs",
    seeds: tuple[int, ...] = (0, 1),
    settings: Settings = SETTINGS,
    protocol: Protocol = PROTOCOL,
    **rest,
) -> TrainConfig:
    return TrainConfig(task, "rt", settings, protocol, seeds, **{"precision": "fp32", **rest})


def make_trainer(config: TrainConfig, folder: RunFolder, device: str = "cpu") -> Trainer:
    return Trainer(CLRSTask(config), folder, torch.device(device))


def train_run(config: TrainConfig, out: Path | str, **options) -> dict:
    return train(CLRSTask(config), out, torch.device("cpu"), **options)


def run_to_the_end(config: TrainConfig, path: Path) -> tuple[Trainer, dict]:
    folder = RunFolder(path)
    with folder.opened(config.as_dict()):
        trainer = make_trainer(config, folder)
        for _ in trainer.run():
            pass
        return trainer, trainer.finish()
