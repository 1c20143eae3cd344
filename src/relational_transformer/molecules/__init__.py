"""Molecules: properties of a whole graph from atoms, bonds and distances, and the QM9 data set.

The model needs torch alone; `pip install '.[pyg]'` in a checkout adds PyTorch Geometric, which reads QM9.
"""

from .distances import distance_basis
from .graphs import Molecules
from .model import MoleculeRegressor
from .qm9 import TARGETS, Target, find_target, load_qm9, split_indices

__all__ = [
    "TARGETS",
    "MoleculeRegressor",
    "Molecules",
    "Target",
    "distance_basis",
    "find_target",
    "load_qm9",
    "split_indices",
]
