"""From a configuration to a model, and what it costs."""

from dataclasses import asdict

import torch

from relational_transformer.runs.task import count, without_values

from .config import QM9Config
from .data import BOND_ORDERS
from .graphs import Molecules
from .model import MoleculeRegressor
from .targets import ELEMENTS

TYPICAL_ATOMS = 18
"""Molecules of QM9 have 3 to 29, 18.0 on average; the root of their mean square is 18.3."""
OF_TRAINING = ("learning_rate", "batch_size", "gradient_clip")
"""What a configuration's settings have besides sizes of the model."""


def build_model(config: QM9Config) -> MoleculeRegressor:
    """The model of one seed, which does not know its target's scale yet."""
    sizes = {name: value for name, value in asdict(config.settings).items() if name not in OF_TRAINING}
    return MoleculeRegressor(
        atom_size=len(ELEMENTS),
        bond_size=BOND_ORDERS,
        node_size=config.settings.node_size,
        readout="sum" if config.target.extensive else "mean",
        **sizes,
    )


def flop_of_molecule(config: QM9Config) -> int:
    """Operations of a forward pass of one seed with a typical molecule."""
    model = without_values(lambda: build_model(config))
    shape = (1, TYPICAL_ATOMS)
    molecule = Molecules(
        torch.zeros(*shape, len(ELEMENTS)),
        torch.zeros(*shape, TYPICAL_ATOMS, BOND_ORDERS),
        torch.zeros(*shape, 3),
        torch.ones(*shape, dtype=torch.bool),
    )
    return count(lambda: model.network(molecule))
