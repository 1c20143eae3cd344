"""What a trial of the paper's search trains: one model on the core tasks, by the tuning protocol."""

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
data seeds are placeholders: every run makes data of its own."""

DIVERGED = 0.0
"""Score of a seed whose parameters became infinite. That is its configuration's doing, so the run counts."""

Watch = Callable[[str, int], None]
"""Called with a task and the examples trained on so far."""


@dataclass(frozen=True)
class TaskTraining:
    """Trains a configuration of `model` on every task, all of them side by side; see `objective.Train`.

    The score of a task is the paper's: of all validations, the parameters with the best score are tested on graphs of
    64 nodes. Data seeds are drawn anew for every run and task, so no search can fit any fixed data set, and the test
    score may be searched on. With several seeds, a fleet of them trains together, and the score is their mean.
    """

    model: str
    tasks: tuple[str, ...] = CORE_TASKS
    protocol: Protocol = TUNING_PROTOCOL
    num_seeds: int = 1
    device: str = "cpu"
    watch: Watch = lambda task, examples: None
    folder: Path | None = None
    """Of the runs while they train; the system's for temporary files where None."""

    def __call__(self, configuration: Configuration, seed: int) -> dict[str, float]:
        def report(trainer: Trainer) -> None:
            self.watch(trainer.config.task, trainer.examples)

        configs = [self.config(task, configuration, seed) for task in self.tasks]
        try:
            # Nobody comes back to the run of a trial.
            with TemporaryDirectory(prefix="run-", dir=self.folder) as folder:
                runs = [(CLRSTask(config), f"{folder}/{config.task}") for config in configs]
                results = train_together(runs, torch.device(self.device), report=report)
        except Stopped:
            ended = "stopped; the trial under way is lost, all others are kept: the same command goes on"
            raise KeyboardInterrupt(ended) from None
        finally:
            free_memory()
        return {
            task: fmean(DIVERGED if row["failed"] else row["test"] for row in result["seeds"])
            for task, result in zip(self.tasks, results, strict=True)
        }

    def config(self, task: str, configuration: Configuration, seed: int) -> TrainConfig:
        """One fleet of a trial. Sizes differ from trial to trial, and compiling for each would outlast its training."""
        return TrainConfig(
            task=task,
            model=self.model,
            settings=settings_of(self.model, configuration),
            protocol=with_data_seeds(self.protocol, task, seed),
            seeds=tuple(range(seed, seed + self.num_seeds)),
            compile="off",
        )


def with_data_seeds(protocol: Protocol, task: str, seed: int) -> Protocol:
    """The protocol with data of its own: three seeds that depend on the run's seed and the task."""
    numbers = np.random.SeedSequence([seed, ALGORITHMS.index(task)]).generate_state(3)
    train, validation, test = (int(number) for number in numbers)
    return replace(protocol, train_data_seed=train, validation_data_seed=validation, test_data_seed=test)


def free_memory() -> None:
    """Let go of what the last run left on the device, so that the next may have it all."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
