"""CLRS-30: thirty classical algorithms as training data. numpy is all it needs; numba makes it fast."""

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
