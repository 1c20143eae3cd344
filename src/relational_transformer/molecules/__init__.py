"""Molecules: properties of a whole graph from atoms, bonds and distances, and QM9 as a task.

The model needs torch alone; `pip install '.[molecules]'` in a checkout adds QM9's molecules.
"""

from .config import MoleculeSettings, QM9Config, QM9Protocol
from .distances import distance_basis
from .graphs import Molecules
from .model import MoleculeRegressor
from .qm9 import QM9, load_qm9
from .targets import TARGETS, Target, find_target
from .task import QM9Task, load_model

__all__ = [
    "QM9",
    "TARGETS",
    "MoleculeRegressor",
    "MoleculeSettings",
    "Molecules",
    "QM9Config",
    "QM9Protocol",
    "QM9Task",
    "Target",
    "distance_basis",
    "find_target",
    "load_model",
    "load_qm9",
]
