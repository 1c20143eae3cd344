"""Runs on QM9 small enough for tests."""

from dataclasses import replace
from pathlib import Path

import torch

from relational_transformer.molecules import MoleculeSettings, QM9Config, QM9Protocol, QM9Task
from relational_transformer.runs import train

CPU = torch.device("cpu")
SETTINGS = MoleculeSettings(
    num_layers=2, num_heads=2, head_size=4, node_hidden_size=8, edge_size=6, edge_hidden_sizes=(5, 4), distance_size=8,
    learning_rate=3e-3, batch_size=8,
)  # fmt: skip
PROTOCOL = QM9Protocol(train_molecules=40, validation_molecules=10, examples=96, validation_interval=40)


def small_config(task: str = "qm9_gap", *, seeds: tuple[int, ...] = (0, 1), **changes) -> QM9Config:
    return replace(QM9Config(task, SETTINGS, PROTOCOL, seeds, precision="fp32"), **changes)


def train_run(config: QM9Config, out: Path | str, **options) -> dict:
    return train(QM9Task(config), out, CPU, **options)
