"""What a training step of RT is compiled into compiles on a CUDA device, for every task."""

import pytest
import torch

from relational_transformer.clrs import ALGORITHMS
from relational_transformer.processors.settings import TUNED
from relational_transformer.runs import RunFolder
from relational_transformer.training import Protocol, TrainConfig
from tests.training.small import make_trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # compilers of torch warn about their own internals
]


@pytest.mark.parametrize("task", ALGORITHMS)
def test_one_step_is_compiled_and_trains_all_seeds(tmp_path, task: str):
    batch_size = TUNED["rt"].batch_size
    protocol = Protocol(train_examples=8, examples=batch_size, validation_interval=batch_size, evaluation_examples=1)
    config = TrainConfig(task, "rt", TUNED["rt"], protocol, (0, 1, 2), precision="bf16", compile="on")
    with RunFolder(tmp_path).opened(config.as_dict()) as folder:
        trainer = make_trainer(config, folder, "cuda")
        before = trainer.fleet.values.clone()
        for _ in trainer.run():
            pass
        assert trainer.rows["loss"].shape == (1, 3)
        assert trainer.rows["loss"].isfinite().all()
        assert trainer.rows["validation"].isfinite().all()
        changed = trainer.fleet.split(trainer.fleet.values != before).values()
        assert torch.stack([block.flatten(1).any(1) for block in changed]).any(0).all()  # in every seed
