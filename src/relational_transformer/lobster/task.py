"""The lobster experiment as a task: models learn distances in graphs and are tested on larger graphs."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.pieces import Parameters
from relational_transformer.fleet.precision import Precision, set_matrix_products
from relational_transformer.regression.evaluation import Evaluator
from relational_transformer.regression.model import LayeredModel
from relational_transformer.regression.stack import FleetStack
from relational_transformer.regression.step import TrainingStep
from relational_transformer.regression.task import RegressionTask
from relational_transformer.runs.checkpoint import load_trained
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.task import Evaluation, Optimiser, Start

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


class LobsterTask(RegressionTask[LobsterConfig]):
    """A fleet of models that learn the distance between two nodes of a lobster graph. All scores are relative losses.

    >>> from relational_transformer.lobster import SETTINGS, LobsterProtocol
    >>> task = LobsterTask(LobsterConfig("gcn", SETTINGS["gcn"], LobsterProtocol(), seeds=(0, 1)))
    >>> task.num_steps, task.steps_of_part, task.examples_of_step
    (62500, 6250, 32)
    """

    config_type = LobsterConfig
    scores = ("train", "test", "test_in_distribution")
    title = "Lobster graphs: relative loss"
    examples_are = "graphs"
    measure = "relative loss"
    shown_as = ".4f"

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
        cls, folder: RunFolder, device: torch.device, nodes: int | None = None, examples: int | None = None,
        data_seed: int | None = None,
    ) -> Evaluation:  # fmt: skip
        changes = {"test_size": nodes, "evaluation_examples": examples, "test_data_seed": data_seed}
        given = {name: value for name, value in changes.items() if value is not None}
        trained = load_trained(cls, folder)
        config, protocol = trained.config, replace(trained.config.protocol, **given)
        set_matrix_products(config.precision)
        graphs = protocol.test_graphs()
        check_memory(config.model, int(graphs.num_nodes.max()), config.precision, device)
        stack = FleetStack(build_model(config.model, config.settings).to(device), compiled=False)
        evaluator = Evaluator(stack, load_split(graphs, device), len(config.seeds), config.precision, relative_error)
        scores = trained.scores(evaluator.mean_errors, device)
        good = [loss for loss in scores.values() if loss is not None]
        note = meaning(statistics.mean(good), graphs.distances) if good else None
        title = f"{config.model} on lobster graphs of size {protocol.test_size}"
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
    def paper_config(
        cls, task: str, model: Any, seeds: tuple[int, ...], *, examples: int | None = None,
        precision: Precision = "tf32", compile: CompileMode = "auto", **options: Any,
    ) -> LobsterConfig:  # fmt: skip
        protocol = LobsterProtocol.like_the_papers(**({} if examples is None else {"examples": examples}))
        return LobsterConfig(model, SETTINGS[model], protocol, seeds, precision, compile)

    @classmethod
    def paper_values(cls, config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        return {"protocol": vars(LobsterProtocol()), "settings": vars(SETTINGS[config["model"]])}

    def flop(self) -> float:
        return flop(self.config)

    def _evaluator(self, stack: FleetStack, split: Split) -> Evaluator:
        return Evaluator(stack, split, len(self.config.seeds), self.config.precision, relative_error)

    def _losses(self, stack: FleetStack, split: Split, best: Parameters) -> list[float]:
        return self._evaluator(stack, split).mean_errors(best).tolist()


def load_model(run: Path | str, seed: int | None = None) -> LayeredModel:
    """The trained model of one seed of the run in a folder (the first that did not fail, unless one is named).

    >>> model = load_model("runs/lobster-rt", seed=3)  # doctest: +SKIP
    """
    trained = load_trained(LobsterTask, run)
    return trained.model_of(trained.number_of(seed))
