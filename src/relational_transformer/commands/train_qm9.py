"""`rt train qm9`: train a fleet of seeds on a property of QM9's molecules."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from relational_transformer.molecules.config import PREFIX, WARMUP, MoleculeSettings, QM9Config, QM9Protocol
from relational_transformer.molecules.task import QM9Task
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.session import train

from .train_run import RunOptions, changes_of, train_and_show

TargetName = Literal["mu", "alpha", "homo", "lumo", "gap", "r2", "zpve", "u0", "u", "h", "g", "cv", "a", "b", "c"]


@dataclass(frozen=True)
class TrainQm9Arguments:
    """Predict a property of QM9's small organic molecules from their bonds and distances, with the Relational
    Transformer: 110,000 molecules for training, 10,000 for validation, and the other 10,831 for the test of the best
    parameters. A score is a mean absolute error in the property's unit; lower is better.

    The molecules come with the extra molecules (pip install '.[molecules]'). A killed run resumes from the last
    checkpoint with the same command, and ends with the same numbers.
    """

    target: TargetName = "gap"
    """The property: dipole moment (mu, D), polarisability (alpha, a0^3), orbitals (homo, lumo, gap, meV), extent (r2,
    a0^2), vibrations (zpve, meV), atomisation energies (u0, u, h, g, meV), heat capacity (cv, cal/(mol K)), or
    rotational constants (a, b, c, GHz)."""
    run: RunOptions = field(default_factory=lambda: RunOptions(schedule=WARMUP))
    """Seeds, the folder of the run, and how it is computed."""
    epochs: int | None = None
    """Passes of each seed over the training set; 200 by default."""
    validation_interval: int | None = None
    """Molecules between two validations, rounded to whole batches; by default one epoch."""
    train_molecules: int | None = None
    """The number of molecules of the training set; 110,000 by default."""
    validation_molecules: int | None = None
    """The number of molecules of the validation set; 10,000 by default."""
    test_molecules: int | None = None
    """The number of molecules of the test set; by default all others."""
    split_seed: int | None = None
    """The seed by which the three sets are drawn, for all seeds of a run; 0 by default."""
    settings: Annotated[MoleculeSettings, tyro.conf.arg(name="model")] = field(default_factory=MoleculeSettings)
    """The network and its optimiser."""


def run(arguments: TrainQm9Arguments) -> None:
    task = PREFIX + arguments.target
    config = QM9Config(task, arguments.settings, protocol_of(arguments), **arguments.run.as_config())
    name = f"qm9-{arguments.target}-{config.model}"
    train_and_show(QM9Task(config), arguments.run, RunFolder(arguments.run.out or Path("runs") / name), train)


def protocol_of(arguments: TrainQm9Arguments) -> QM9Protocol:
    """The protocol of these options. By default it has 200 epochs and a validation after each."""
    names = ("train_molecules", "validation_molecules", "test_molecules", "split_seed")
    protocol = replace(QM9Protocol(), **changes_of(arguments, *names))
    epochs = QM9Protocol.examples // QM9Protocol.train_molecules if arguments.epochs is None else arguments.epochs
    interval = protocol.train_molecules if arguments.validation_interval is None else arguments.validation_interval
    return replace(protocol, examples=epochs * protocol.train_molecules, validation_interval=interval)
