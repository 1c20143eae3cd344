"""What tasks have in common whose examples are graphs with a number each, and whose scores are mean errors."""

import math
from typing import Any, TypeVar

from torch import Tensor

from relational_transformer.fleet.fleet import Fleet
from relational_transformer.runs.config import RunConfig
from relational_transformer.runs.task import Task

from .batches import draw, group_by_size
from .evaluation import Evaluator
from .step import TrainingStep


class RegressionConfig(RunConfig):
    """The base of a configuration with `settings`, which have a `batch_size`, and a `protocol`, which has `examples`
    and a `validation_interval`."""

    settings: Any
    protocol: Any


Config = TypeVar("Config", bound=RegressionConfig)


class RegressionTask(Task[Config]):
    """The training of a fleet; an experiment adds its model, its data and the error that it scores."""

    higher_is_better = False
    steps_at_once = {"cuda": 32, "cpu": 4}  # noqa: RUF012
    shown_times, unit = 1.0, ""

    steps: TrainingStep
    fleet: Fleet
    evaluator: Evaluator
    """Of the validation; `start` makes all three."""

    @property
    def num_steps(self) -> int:
        return math.ceil(self.config.protocol.examples / self.config.settings.batch_size)

    @property
    def steps_of_part(self) -> int:
        return max(1, self.config.protocol.validation_interval // self.config.settings.batch_size)

    @property
    def examples_of_step(self) -> int:
        return self.config.settings.batch_size

    def load(self, part: int, position: int) -> None:
        split, steps = self.steps.split, self.steps_of_part
        index = draw(self.config.seeds, part * steps, steps, self.config.settings.batch_size, len(split))
        self.steps.load(group_by_size(index, split.host_num_nodes, self.steps.buckets), position)

    def validate(self, steps: int) -> dict[str, Tensor]:
        return {"validation": self.evaluator.mean_errors(self.fleet.parameters)}

    @classmethod
    def paper_unit(cls, score: float) -> float:
        return score
