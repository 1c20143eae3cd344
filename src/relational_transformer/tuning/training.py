"""The training of a trial of the paper's search: one model on the core tasks, by the tuning protocol."""

import gc
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import numpy as np
import torch

from relational_transformer.clrs import ALGORITHMS, CORE_TASKS
from relational_transformer.runs.session import Stopped, train_together
from relational_transformer.runs.trainer import Trainer
from relational_transformer.training import CLRSTask, Protocol, TrainConfig

from .grid import Configuration
from .grids import settings_of

TUNING_PROTOCOL = Protocol(examples=32_000, minimum_evaluation_examples=100)
"""CLRS-30's protocol with the paper's changes for tuning: shorter runs, evaluation sets of at least 100 examples. Its
data seeds are placeholders, because every run generates its own data."""

DIVERGED = 0.0
"""The score of a seed whose parameters became infinite. The run counts, because its configuration is the cause."""

Watch = Callable[[str, int], None]
"""Called with a task and the examples trained on so far."""


@dataclass(frozen=True)
class TaskTraining:
    """Trains a configuration of `model` on all tasks at once; see `objective.Train`.

    The score of a task is the paper's: the parameters with the best validation score are tested on graphs of 64 nodes.
    Every run and task has new data seeds, so a search cannot overfit a fixed data set, and may optimise the test score.
    Several seeds train together as a fleet, and the score is their mean.
    """

    model: str
    tasks: tuple[str, ...] = CORE_TASKS
    protocol: Protocol = TUNING_PROTOCOL
    num_seeds: int = 1
    device: str = "cpu"
    watch: Watch = lambda task, examples: None
    folder: Path | None = None
    """The folder of the runs during training; None for the system's temporary folder."""

    def __call__(self, configuration: Configuration, seed: int) -> dict[str, float]:
        def report(trainer: Trainer) -> None:
            self.watch(trainer.config.task, trainer.examples)

        configs = [self.config(task, configuration, seed) for task in self.tasks]
        try:
            # The run of a trial is never resumed.
            with TemporaryDirectory(prefix="run-", dir=self.folder) as folder:
                runs = [(CLRSTask(config), f"{folder}/{config.task}") for config in configs]
                results = train_together(runs, torch.device(self.device), report=report)
        except Stopped:
            ended = "stopped, lost the trial under way, kept all others; the same command continues the search"
            raise KeyboardInterrupt(ended) from None
        finally:
            free_memory()
        return {
            task: fmean(DIVERGED if row["failed"] else row["test"] for row in result["seeds"])
            for task, result in zip(self.tasks, results, strict=True)
        }

    def config(self, task: str, configuration: Configuration, seed: int) -> TrainConfig:
        """The configuration of one fleet of a trial. It is not compiled: sizes differ between trials, and compiling
        would take longer than training."""
        return TrainConfig(
            task=task,
            model=self.model,
            settings=settings_of(self.model, configuration),
            protocol=with_data_seeds(self.protocol, task, seed),
            seeds=tuple(range(seed, seed + self.num_seeds)),
            compile="off",
        )


def with_data_seeds(protocol: Protocol, task: str, seed: int) -> Protocol:
    """The protocol with data seeds that depend on the run's seed and the task."""
    numbers = np.random.SeedSequence([seed, ALGORITHMS.index(task)]).generate_state(3)
    train, validation, test = (int(number) for number in numbers)
    return replace(protocol, train_data_seed=train, validation_data_seed=validation, test_data_seed=test)


def free_memory() -> None:
    """Free the memory that the last run left cached on the device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
