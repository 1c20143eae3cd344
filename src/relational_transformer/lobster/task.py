"""The lobster experiment as a task: models learn distances in graphs and are tested on larger graphs."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.over_seeds import Parameters
from relational_transformer.fleet.precision import Precision
from relational_transformer.regression.batches import draw, group_by_size
from relational_transformer.regression.evaluation import Evaluator
from relational_transformer.regression.model import LayeredModel
from relational_transformer.regression.stack import FleetStack
from relational_transformer.regression.step import TrainingStep
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.task import Evaluation, Optimiser, Start, Task

from .config import LobsterConfig
from .cost import flop
from .data import Split, load_split
from .memory import check_memory
from .models.build import build_model
from .oracle import meaning, oracle_losses
from .protocol import LobsterProtocol
from .settings import SETTINGS


def squared_error(predictions: Tensor, distances: Tensor) -> Tensor:
    return (predictions - distances).square()


def relative_error(predictions: Tensor, distances: Tensor) -> Tensor:
    return (predictions - distances).abs() / distances.abs()


class LobsterTask(Task[LobsterConfig]):
    """A fleet of models that learn the distance between two nodes of a lobster graph. All scores are relative losses.

    >>> from relational_transformer.lobster import SETTINGS, LobsterProtocol
    >>> task = LobsterTask(LobsterConfig("gcn", SETTINGS["gcn"], LobsterProtocol(), seeds=(0, 1)))
    >>> task.num_steps, task.steps_of_part, task.examples_of_step
    (62500, 6250, 32)
    """

    higher_is_better = False
    scores = ("train", "test", "test_in_distribution")
    steps_at_once = {"cuda": 32, "cpu": 4}  # noqa: RUF012
    title = "Lobster graphs: relative loss"
    examples_are = "graphs"
    measure = "relative loss"
    shown_times, shown_as, unit = 1.0, ".4f", ""

    steps: TrainingStep

    @property
    def num_steps(self) -> int:
        return math.ceil(self.config.protocol.examples / self.config.settings.batch_size)

    @property
    def steps_of_part(self) -> int:
        return max(1, self.config.protocol.validation_interval // self.config.settings.batch_size)

    @property
    def examples_of_step(self) -> int:
        return self.config.settings.batch_size

    @property
    def optimiser(self) -> Optimiser:
        settings = self.config.settings
        return Optimiser(settings.learning_rate, settings.adam_epsilon, settings.gradient_clip)

    def build(self) -> LayeredModel:
        return build_model(self.config.model, self.config.settings)

    def start(self, start: Start) -> None:
        config, protocol, device = self.config, self.config.protocol, start.device
        validation = protocol.validation_graphs()
        check_memory(config.model, int(validation.num_nodes.max()), config.precision, device)
        self.stack, self.training = FleetStack(start.model, start.compiled), load_split(protocol.train_graphs(), device)
        self.steps = TrainingStep(
            self.stack,
            start.fleet,
            self.training,
            start.adam,
            batch_size=config.settings.batch_size,
            precision=config.precision,
            error=squared_error,
        )
        self.model, self.fleet, self._device = start.model, start.fleet, device
        self.evaluator = self._evaluator(self.stack, load_split(validation, device))

    def load(self, part: int, position: int) -> None:
        split, steps = self.steps.split, self.steps_of_part
        index = draw(self.config.seeds, part * steps, steps, self.config.settings.batch_size, len(split))
        self.steps.load(group_by_size(index, split.host_num_nodes, self.steps.buckets), position)

    def step(self, number: int) -> None:
        self.steps.make(number)

    def validate(self, steps: int) -> dict[str, Tensor]:
        return {"validation": self.evaluator.mean_errors(self.fleet.parameters)}

    def test(self, best: Parameters, tested: Sequence[bool]) -> dict[str, list[float]]:
        protocol = self.config.protocol
        plain = FleetStack(self.model, compiled=False)  # small graphs, seen once: compiling would take longer
        seen = self.training.thinned(protocol.evaluation_examples)
        return {
            "train": self._losses(plain, seen, best),
            "test": self._losses(self.stack, load_split(protocol.test_graphs(), self._device), best),
            "test_in_distribution": self._losses(
                plain, load_split(protocol.test_graphs_of_training_sizes(), self._device), best
            ),
        }

    @classmethod
    def evaluate(
        cls, folder: RunFolder, device: torch.device, nodes: int | None, examples: int | None, data_seed: int | None
    ) -> Evaluation:
        from .trained import evaluate_run  # which loads a run of this task

        changes = {"test_size": nodes, "evaluation_examples": examples, "test_data_seed": data_seed}
        given = {name: value for name, value in changes.items() if value is not None}
        found = evaluate_run(folder, device, lambda protocol: replace(protocol, **given))
        config, scores = found.config, dict(zip(found.config.seeds, found.losses, strict=True))
        good = [loss for loss in found.losses if loss is not None]
        title = f"{config.model} on lobster graphs of size {given.get('test_size', config.protocol.test_size)}"
        note = meaning(statistics.mean(good), found.distances) if good else None
        return Evaluation(title, cls.measure, scores, cls.shown, note)

    @property
    def headings(self) -> dict[str, str]:
        protocol = self.config.protocol
        near = f"test, {protocol.smallest_size} to {protocol.end_size - 1}"
        return {"train": "train", "test_in_distribution": near, "test": f"test, {protocol.test_size}"}

    def note(self, scores: Sequence[float]) -> str | None:
        return meaning(statistics.mean(scores), self.config.protocol.test_graphs().distances) if scores else None

    def about(self) -> dict[str, Any]:
        oracles = oracle_losses(self.config.protocol.test_graphs().distances)
        return {"metric": "relative loss", "oracles": oracles}

    @classmethod
    def read_config(cls, content: dict[str, Any]) -> LobsterConfig:
        return LobsterConfig.from_dict(content)

    @classmethod
    def paper_config(
        cls, task: str, model: Any, seeds: tuple[int, ...], *, examples: int | None = None,
        precision: Precision = "tf32", compile: CompileMode = "auto", **options: Any,
    ) -> LobsterConfig:  # fmt: skip
        protocol = LobsterProtocol.like_the_papers(**({} if examples is None else {"examples": examples}))
        return LobsterConfig(model, SETTINGS[model], protocol, seeds, precision, compile)

    @classmethod
    def paper_values(cls, config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        return {"protocol": vars(LobsterProtocol()), "settings": vars(SETTINGS[config["model"]])}

    @classmethod
    def paper_unit(cls, score: float) -> float:
        return score

    def flop(self) -> float:
        return flop(self.config)

    def _evaluator(self, stack: FleetStack, split: Split) -> Evaluator:
        return Evaluator(stack, split, len(self.config.seeds), self.config.precision, relative_error)

    def _losses(self, stack: FleetStack, split: Split, best: Parameters) -> list[float]:
        return self._evaluator(stack, split).mean_errors(best).tolist()
