"""What a trial of the paper's search trains: one model on the core tasks, by the tuning protocol."""

import gc
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from relational_transformer.clrs import ALGORITHMS, CORE_TASKS
from relational_transformer.processors.settings import Settings
from relational_transformer.training import Protocol, RunFolder, TrainConfig, Trainer

from .grid import Configuration
from .grids import settings_of

TUNING_PROTOCOL = Protocol(examples=32_000, minimum_evaluation_examples=100)
"""CLRS-30's protocol with the paper's changes for tuning: shorter runs, evaluation sets of at least 100 examples. Its
data seeds are placeholders: every run makes data of its own."""

DIVERGED = 0.0
"""Score of a seed whose parameters became infinite. That is its configuration's doing, so the run counts."""

Watch = Callable[[str, int, int], None]
"""Called with the task, the examples trained on, and how many there will be."""


@dataclass(frozen=True)
class TaskTraining:
    """Trains a configuration of `model` on every task; see `objective.Train`.

    The score of a task is the paper's: of all validations, the parameters with the best score are tested on graphs
    of 64 nodes. Data seeds are drawn anew for every run and task, so no search can fit any fixed data set, and the test
    score may be searched on. With several seeds, a fleet of them trains together, and the score is their mean.
    """

    model: str
    tasks: tuple[str, ...] = CORE_TASKS
    protocol: Protocol = TUNING_PROTOCOL
    num_seeds: int = 1
    device: str = "cpu"
    watch: Watch | None = None

    def __call__(self, configuration: Configuration, seed: int) -> dict[str, float]:
        settings = settings_of(self.model, configuration)
        return {task: self.train(task, settings, seed) for task in self.tasks}

    def train(self, task: str, settings: Settings, seed: int) -> float:
        """The mean test score of the fleet on one task."""
        config = TrainConfig(
            task=task,
            model=self.model,
            settings=settings,
            protocol=with_data_seeds(self.protocol, task, seed),
            seeds=tuple(range(seed, seed + self.num_seeds)),
        )
        try:
            with TemporaryDirectory(prefix="rt-tune-") as path:  # nobody comes back to the run of a trial
                scores = self._run(config, Path(path))
        finally:
            free_memory()
        return sum(scores) / len(scores)

    def _run(self, config: TrainConfig, path: Path) -> list[float]:
        with RunFolder(path).opened(config.as_dict()) as folder:
            trainer = Trainer(config, folder, torch.device(self.device))
            for _ in trainer.run():
                if self.watch is not None:
                    self.watch(config.task, trainer.examples, config.protocol.examples)
            rows = trainer.finish()["seeds"]
        return [DIVERGED if row["test"] is None or not math.isfinite(row["test"]) else row["test"] for row in rows]


def with_data_seeds(protocol: Protocol, task: str, seed: int) -> Protocol:
    """The protocol with data of its own: three seeds that depend on the run's seed and the task."""
    numbers = np.random.SeedSequence([seed, ALGORITHMS.index(task)]).generate_state(3)
    train, validation, test = (int(number) for number in numbers)
    return replace(protocol, train_data_seed=train, validation_data_seed=validation, test_data_seed=test)


def free_memory() -> None:
    """Let go of what the last run left: its tensors, and code compiled for its sizes, which no later run has."""
    gc.collect()
    torch.compiler.reset()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
