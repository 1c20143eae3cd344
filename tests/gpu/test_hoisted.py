"""What steps share computed once, on a CUDA device: compiled, in a CUDA graph."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from relational_transformer.processors.settings import find_settings
from relational_transformer.training import Protocol, RunFolder, TrainConfig, Trainer
from relational_transformer.training.engine import Engine

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # compilers of torch warn about their own internals
]

PROTOCOL = Protocol(train_examples=200, examples=80, validation_interval=40, test_nodes=20)


def run(model: str, precision: str, path: Path, task: str = "bfs") -> Trainer:
    config = TrainConfig(task, model, find_settings(model), PROTOCOL, (0, 1, 2), compile="on")
    config = replace(config, precision=precision)
    folder = RunFolder(path)
    with folder.opened(config.as_dict()):
        trainer = Trainer(config, folder, torch.device("cuda"))
        for _ in trainer.run():
            pass
    return trainer


@pytest.mark.parametrize("model", ["mpnn", "pgn", "transformer"])
def test_steps_that_share_what_they_can_train_like_steps_one_by_one(tmp_path, model: str, monkeypatch):
    shared = run(model, "fp32", tmp_path / "shared")
    assert shared.engine.shares_steps
    monkeypatch.setattr(Engine, "shares_steps", False)
    one_by_one = run(model, "fp32", tmp_path / "one_by_one")
    torch.testing.assert_close(shared.losses[0], one_by_one.losses[0], rtol=0.02, atol=0.02)


@pytest.mark.parametrize(("model", "task"), [("mpnn", "bfs"), ("transformer", "bfs"), ("rt", "matrix_chain_order")])
def test_the_same_run_gives_the_same_bits(tmp_path, model: str, task: str):
    first, second = (run(model, "bf16", tmp_path / name, task) for name in ("first", "second"))
    assert torch.equal(first.fleet.values, second.fleet.values)
