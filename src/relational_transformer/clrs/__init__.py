"""CLRS-30: thirty classical algorithms as training data. It needs only numpy; numba makes it fast."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from relational_transformer.clrs.dataset import SPLITS, SplitName, canonical
from relational_transformer.clrs.samples.modern import training_lengths
from relational_transformer.clrs.samples.sampling import sample
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

if TYPE_CHECKING:
    from relational_transformer.clrs.samples.blocks import TrainingBlock, training_block, training_blocks
    from relational_transformer.clrs.samples.reference_run import ReferenceRun
    from relational_transformer.clrs.samples.streaming import stream

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

_IMPORTED_LATER = {
    **dict.fromkeys(("TrainingBlock", "training_block", "training_blocks"), "samples.blocks"),
    "ReferenceRun": "samples.reference_run",
    "stream": "samples.streaming",
}
"""Names of streams of fresh examples, which most programs never read."""


def __getattr__(name: str) -> Any:
    if name in _IMPORTED_LATER:
        return getattr(import_module(f".{_IMPORTED_LATER[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
