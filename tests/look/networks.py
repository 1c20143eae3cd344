"""Small networks to look at, untrained, which are wrong in many places, and runs of them on disk."""

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from relational_transformer.clrs.feature import ProtocolName
from relational_transformer.look.packing import unpack
from relational_transformer.look.run import TrainedRun
from relational_transformer.processors import Settings
from relational_transformer.runs.checkpoint import save_checkpoint
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.training import PROTOCOLS, TrainConfig
from relational_transformer.training.task import network_of

SMALL = Settings(hidden_size=8, num_heads=2, num_layers=1)


def untrained(
    task: str,
    name: str = "untrained",
    *,
    protocol: ProtocolName = "paper",
    settings: Settings = SMALL,
    seed: int = 0,
    alike: bool = False,
) -> TrainedRun:
    """A run as initialised, but for the gains of its normalisations, which make edge vectors differ in length unless
    they are to be `alike`."""
    torch.manual_seed(seed)
    config = TrainConfig(task, "rt", settings, PROTOCOLS[protocol], seeds=(0,))
    network = network_of(config).eval()
    for module in network.modules():
        if isinstance(module, torch.nn.LayerNorm) and not alike:
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
    return TrainedRun(name, config, network)


def save_run(run: TrainedRun, folder: Path) -> Path:
    """What is left of a run where only its best parameters matter."""
    state = {f"best.{name}": values.unsqueeze(0) for name, values in run.network.named_parameters()}
    state |= {"finite": torch.tensor([True]), "best_scores": torch.tensor([0.5])}
    with RunFolder(folder).opened(run.config.as_dict()) as opened:
        save_checkpoint(opened, run.config.as_dict(), state, {})
    return folder


class Page(NamedTuple):
    """What a page has inside."""

    facts: dict[str, Any]
    data: bytes

    def array(self, place: dict[str, Any]) -> np.ndarray:
        return unpack(place, self.data)


def read_page(text: str) -> Page:
    facts, data = (
        re.search(rf'<script type="[^"]*" id="{name}">(.*?)</script>', text, re.DOTALL) for name in ("facts", "data")
    )
    assert facts is not None
    assert data is not None
    return Page(json.loads(facts[1]), zlib.decompress(base64.b64decode(data[1])))
