"""CLRS-30: thirty classical algorithms as training data. It needs only numpy; numba makes it fast."""

from relational_transformer.clrs.dataset import SPLITS, SplitName, canonical
from relational_transformer.clrs.samples.blocks import TrainingBlock, training_block, training_blocks
from relational_transformer.clrs.samples.modern import training_lengths
from relational_transformer.clrs.samples.reference_run import ReferenceRun
from relational_transformer.clrs.samples.sampling import sample
from relational_transformer.clrs.samples.streaming import stream
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
    ProtocolName,
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
    "SPLITS",
    "TITLES",
    "AlgorithmClass",
    "FeatureSpec",
    "FeatureVersion",
    "Location",
    "ProtocolName",
    "ReferenceRun",
    "SplitName",
    "Stage",
    "TrainingBlock",
    "Trajectories",
    "Type",
    "canonical",
    "sample",
    "spec_of",
    "stream",
    "training_block",
    "training_blocks",
    "training_lengths",
]
