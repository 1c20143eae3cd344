"""A property of the molecules of QM9 as a task, scored by the mean absolute error in its unit."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
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
from relational_transformer.runs.task import FORWARD_AND_BACKWARD, Evaluation, Optimiser, Start

from .build import build_model, flop_of_molecule
from .config import WARMUP, MoleculeSettings, QM9Config, QM9Protocol
from .model import MoleculeRegressor
from .preparation import Prepared
from .qm9 import load_qm9

ATOMS_PER_BUCKET = {"training": 4, "evaluation": 8}
"""Molecules are padded to multiples of these numbers of atoms; they have 3 to 29."""
MOLECULES = 130_831
"""In the whole data set."""


def absolute_error(predictions: Tensor, targets: Tensor) -> Tensor:
    return (predictions - targets).abs()


class QM9Task(RegressionTask[QM9Config]):
    """A fleet that learns one property of molecules; losses are absolute errors in units of the property's spread.

    >>> task = QM9Task(QM9Config("qm9_gap", MoleculeSettings(), QM9Protocol(), seeds=(0, 1)))
    >>> task.num_steps, task.steps_of_part, task.examples_of_step
    (171875, 859, 128)
    """

    config_type = QM9Config
    title = "QM9: mean absolute error"
    examples_are = "molecules"
    measure = "mean absolute error"
    shown_as = ".4g"

    @property
    def optimiser(self) -> Optimiser:
        settings = self.config.settings
        return Optimiser(settings.learning_rate, clip=settings.gradient_clip)

    def build(self) -> LayeredModel:
        return build_model(self.config).network

    def start(self, start: Start) -> None:
        config, device = self.config, start.device
        self.data_of_run = data = Prepared.of(load_qm9(), config)
        self.stack, self.fleet, self._device = FleetStack(start.model, start.compiled), start.fleet, device
        self.steps = TrainingStep(
            self.stack,
            start.fleet,
            data.split(data.indices.training, device, start.fleet.values.dtype),
            start.adam,
            batch_size=config.settings.batch_size,
            precision=config.precision,
            error=absolute_error,
            nodes_per_bucket=ATOMS_PER_BUCKET["training"],
        )
        self.evaluator = evaluator_of(self.stack, data, data.indices.validation, config, device)

    def test(self, best: Parameters, tested: Sequence[bool]) -> dict[str, list[float]]:
        data = self.data_of_run
        evaluator = evaluator_of(self.stack, data, data.indices.test, self.config, self._device)
        return {"test": evaluator.mean_errors(best).tolist()}

    @classmethod
    def evaluate(
        cls, folder: RunFolder, device: torch.device, nodes: int | None = None, examples: int | None = None,
        data_seed: int | None = None,
    ) -> Evaluation:  # fmt: skip
        if any(given is not None for given in (nodes, examples, data_seed)):
            raise ValueError("a run on QM9 is scored on the test molecules of its split, and on no others")
        trained = load_trained(cls, folder)
        config = trained.config
        set_matrix_products(config.precision)
        data = Prepared.of(load_qm9(), config)
        dtype = next(iter(trained.best.values())).dtype
        stack = FleetStack(build_model(config).network.to(device, dtype), compiled=False)
        evaluator = evaluator_of(stack, data, data.indices.test, config, device)
        title, measure = f"{config.model} on {config.task}, test", f"{cls.measure} ({config.target.unit})"
        return Evaluation(title, measure, trained.scores(evaluator.mean_errors, device), cls.shown)

    @property
    def headings(self) -> dict[str, str]:
        return {"test": f"test ({self.config.target.unit})"}

    def about(self) -> dict[str, Any]:
        return {
            "metric": self.measure,
            "unit": self.config.target.unit,
            "baselines": self.data_of_run.baselines(),
            "data_sha256": self.data_of_run.qm9.sha256,
        }

    @classmethod
    def paper_config(
        cls, task: str, model: Any, seeds: tuple[int, ...], *, examples: int | None = None,
        precision: Precision = "tf32", compile: CompileMode = "auto", **options: Any,
    ) -> QM9Config:  # fmt: skip
        protocol = QM9Protocol(**({} if examples is None else {"examples": examples}))
        return QM9Config(task, MoleculeSettings(), protocol, seeds, precision, compile, WARMUP, model)

    @classmethod
    def paper_values(cls, config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        """How many molecules others train and test on; for how long is not part of a comparison."""
        usual, own = QM9Protocol(), config["protocol"]
        sizes = ("train_molecules", "validation_molecules", "test_molecules")
        return {"protocol": {**own, **{name: getattr(usual, name) for name in sizes}}}

    def flop(self) -> float:
        """Training, validations and the test; padding is not counted."""
        protocol = self.config.protocol
        left = MOLECULES - protocol.train_molecules - protocol.validation_molecules
        validations = math.ceil(self.num_steps / self.steps_of_part)
        evaluated = validations * protocol.validation_molecules + (protocol.test_molecules or max(0, left))
        of_seed = flop_of_molecule(self.config) * (FORWARD_AND_BACKWARD * protocol.examples + evaluated)
        return float(len(self.config.seeds) * of_seed)


def evaluator_of(
    stack: FleetStack, data: Prepared, index: np.ndarray, config: QM9Config, device: torch.device
) -> Evaluator:
    """Mean absolute errors on the molecules at `index` in the target's unit."""
    spread = data.scale.std.item()
    return Evaluator(
        stack,
        data.split(index, device, torch.float64 if config.precision == "fp64" else torch.float32),
        len(config.seeds),
        config.precision,
        error=lambda predictions, targets: spread * absolute_error(predictions, targets),
        nodes_per_bucket=ATOMS_PER_BUCKET["evaluation"],
    )


def load_model(run: Path | str, seed: int | None = None) -> MoleculeRegressor:
    """The trained model of one seed of the run in a folder (the first that did not fail, unless one is named). It
    predicts in the target's unit, and can be saved with `save_pretrained`.

    >>> model = load_model("runs/qm9-gap-rt", seed=1)  # doctest: +SKIP
    """
    trained = load_trained(QM9Task, run)
    network = trained.model_of(trained.number_of(seed))
    model = build_model(trained.config).to(next(network.parameters()).dtype)
    model.network.load_state_dict(network.state_dict())
    model.use_scale(Prepared.of(load_qm9(), trained.config).scale)
    return model.eval()
