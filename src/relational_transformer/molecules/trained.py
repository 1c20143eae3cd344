"""A trained run, loaded again: its model, and its errors on the test molecules."""

import math
from pathlib import Path

import torch

from relational_transformer.fleet.precision import set_matrix_products
from relational_transformer.regression.stack import FleetStack
from relational_transformer.runs.checkpoint import load_trained
from relational_transformer.runs.run_folder import RunFolder

from .build import build_model
from .config import QM9Config
from .model import MoleculeRegressor
from .preparation import Prepared
from .qm9 import load_qm9
from .task import QM9Task, evaluator_of


def load_model(run: Path | str, seed: int | None = None) -> MoleculeRegressor:
    """The trained model of one seed of the run in a folder (the first that did not fail, unless one is named). It
    predicts in the target's unit, and can be saved with `save_pretrained`.

    >>> model = load_model("runs/qm9-gap-rt", seed=1)  # doctest: +SKIP
    """
    trained = load_trained(QM9Task, run)
    own = trained.parameters_of(trained.number_of(seed))
    model = build_model(trained.config).to(next(iter(own.values())).dtype)
    model.network.load_state_dict(own)
    model.use_scale(Prepared.of(load_qm9(), trained.config).scale)
    return model.eval()


def evaluate_run(folder: RunFolder, device: torch.device) -> tuple[QM9Config, dict[int, float | None]]:
    """Mean absolute test errors of a run in the target's unit, by seed; None of a seed that failed."""
    _, config, parameters, finite = load_trained(QM9Task, folder)
    set_matrix_products(config.precision)
    data = Prepared.of(load_qm9(), config)
    dtype = next(iter(parameters.values())).dtype
    stack = FleetStack(build_model(config).network.to(device, dtype), compiled=False)
    evaluator = evaluator_of(stack, data, data.indices.test, config, device)
    errors = evaluator.mean_errors({name: tensor.to(device) for name, tensor in parameters.items()}).tolist()
    good = [error if ok and math.isfinite(error) else None for error, ok in zip(errors, finite, strict=True)]
    return config, dict(zip(config.seeds, good, strict=True))
