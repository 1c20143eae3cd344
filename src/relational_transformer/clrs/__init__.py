"""CLRS-30: thirty classical algorithms as training data, in numpy alone (numba makes it fast; torch is never imported)."""

from relational_transformer.clrs.spec import (
    ALGORITHMS,
    CLASS_OF,
    CLASSES,
    CORE_TASKS,
    SPECS,
    TITLES,
    AlgorithmClass,
    FeatureSpec,
    FeatureVersion,
    Location,
    Stage,
    Type,
    spec_of,
)
from relational_transformer.clrs.trajectories import Trajectories

__all__ = [
    "ALGORITHMS",
    "CLASSES",
    "CLASS_OF",
    "CORE_TASKS",
    "SPECS",
    "TITLES",
    "AlgorithmClass",
    "FeatureSpec",
    "FeatureVersion",
    "Location",
    "Stage",
    "Trajectories",
    "Type",
    "spec_of",
]
