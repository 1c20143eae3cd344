"""The vocabulary of features: stage, location, type, the two published versions of the benchmark, the two protocols."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

FeatureVersion = Literal["1.0", "2.0"]
"""The version of the features: "1.0" is what the paper used; dm-clrs 2.x adds quickselect's `pivot` hint and counts the
nodes of a string-matching example, where 1.0 counts the characters of the haystack."""

ProtocolName = Literal["paper", "modern"]
"""The form of the data: "paper" is the benchmark's original protocol of 2022, which the paper used; "modern" is that of
Ibarz et al., *A Generalist Neural Algorithmic Learner* (2022), which most work since has used."""


class Stage(StrEnum):
    """When a feature is known: before, after, or at every step of the algorithm.

    >>> list(Stage)
    [<Stage.INPUT: 'input'>, <Stage.OUTPUT: 'output'>, <Stage.HINT: 'hint'>]
    """

    INPUT = "input"
    OUTPUT = "output"
    HINT = "hint"


class Location(StrEnum):
    """What a feature describes: every node [N], every edge [N, N], or the graph as a whole.

    >>> Location("edge") is Location.EDGE
    True
    """

    NODE = "node"
    EDGE = "edge"
    GRAPH = "graph"


class Type(StrEnum):
    """What values a feature takes. A `mask` is -1 where it has no meaning, and so is one entry of a `categorical`.

    A `permutation_pointer` is a one-hot matrix: row i marks the node before node i in a cyclic order.

    >>> Type("mask_one") is Type.MASK_ONE
    True
    """

    SCALAR = "scalar"
    CATEGORICAL = "categorical"
    MASK = "mask"
    MASK_ONE = "mask_one"
    POINTER = "pointer"
    SHOULD_BE_PERMUTATION = "should_be_permutation"
    PERMUTATION_POINTER = "permutation_pointer"


@dataclass(frozen=True)
class FeatureSpec:
    """Stage, location and type of one feature; `classes` is the size of a categorical's last axis, else None.

    >>> from relational_transformer.clrs import SPECS
    >>> SPECS["bellman_ford"]["pi"] == FeatureSpec(Stage.OUTPUT, Location.NODE, Type.POINTER)
    True
    """

    stage: Stage
    location: Location
    type: Type
    classes: int | None = None


Spec = Mapping[str, FeatureSpec]
