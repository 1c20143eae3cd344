"""The modern protocol's form of the data (Ibarz et al., *A Generalist Neural Algorithmic Learner*, 2022).

It differs from the paper's form in three points, on which algorithms and traces do not depend: positions are random,
a constant hint is an input, and the output of a sort is a permutation matrix.
"""

from types import MappingProxyType

import numpy as np

from relational_transformer.clrs.classes import CLASSES, STRING_MATCHERS, AlgorithmClass
from relational_transformer.clrs.feature import FeatureSpec, Location, Spec, Stage, Type
from relational_transformer.clrs.trajectories import Trajectories

# The hint `pred_h` of these never changes: it is the order of the nodes.
PREDECESSORS_AS_INPUT = frozenset(
    {
        "activity_selector",
        "binary_search",
        "find_maximum_subarray_kadane",
        "jarvis_march",
        "kmp_matcher",
        "lcs_length",
        "matrix_chain_order",
        "minimum",
        "naive_string_matcher",
        "optimal_bst",
        "task_scheduling",
    }
)

# Their output `pred` is an order of the nodes.
SORTS = CLASSES[AlgorithmClass.SORTING]

TRAINING_LENGTHS = (4, 7, 11, 13, 16)
# Both strings together; the haystack and its needle share them in ever other ways.
STRING_LENGTHS = (20,)


def training_lengths(name: str) -> tuple[int, ...]:
    """The sizes of training batches, which take turns; the last one is also that of validation.

    >>> training_lengths("bfs"), training_lengths("kmp_matcher")
    ((4, 7, 11, 13, 16), (20,))
    """
    return STRING_LENGTHS if name in STRING_MATCHERS else TRAINING_LENGTHS


def modern_spec(name: str, spec: Spec) -> Spec:
    """The features of an algorithm (all of dm-clrs 2.x) in the modern form: inputs, outputs, hints."""
    stages: dict[Stage, dict[str, FeatureSpec]] = {Stage.INPUT: {}, Stage.OUTPUT: {}, Stage.HINT: {}}
    for feature_name, feature in spec.items():
        stages[feature.stage][feature_name] = feature
    if name in PREDECESSORS_AS_INPUT:
        del stages[Stage.HINT]["pred_h"]
        stages[Stage.INPUT]["pred"] = FeatureSpec(Stage.INPUT, Location.NODE, Type.POINTER)
    if name in SORTS:
        stages[Stage.OUTPUT]["pred"] = FeatureSpec(Stage.OUTPUT, Location.NODE, Type.PERMUTATION_POINTER)
        stages[Stage.OUTPUT]["pred_mask"] = FeatureSpec(Stage.OUTPUT, Location.NODE, Type.MASK_ONE)
    return MappingProxyType({key: feature for features in stages.values() for key, feature in features.items()})


def modern_form(name: str, data: Trajectories, positions: np.ndarray | None = None) -> Trajectories:
    """Trajectories with the features of dm-clrs 2.x, in the modern form.

    Args:
        name: the algorithm.
        data: what was traced.
        positions: random numbers [B, N] that replace the even positions; None keeps those.
    """
    inputs, hints, outputs = dict(data.inputs), dict(data.hints), dict(data.outputs)
    if positions is not None:
        inputs["pos"] = random_positions(inputs["pos"], positions).astype(inputs["pos"].dtype)
    if name in PREDECESSORS_AS_INPUT:
        inputs["pred"] = hints.pop("pred_h")[0]
    if name in SORTS:
        outputs["pred"], outputs["pred_mask"] = cyclic_permutation(outputs["pred"])
    return Trajectories(inputs, hints, outputs, data.lengths)


def random_positions(even: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`values` [B, N] in ascending order within each sequence of nodes; a sequence begins where `even` is 0.

    >>> random_positions(np.array([[0.0, 0.5, 0.0, 0.5]]), np.array([[0.9, 0.3, 0.8, 0.1]])).tolist()
    [[0.3, 0.9, 0.1, 0.8]]
    """
    sequence = np.cumsum(even == 0, axis=1)
    return np.take_along_axis(values, np.lexsort((values, sequence), axis=-1), axis=1)


def cyclic_permutation(predecessors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Predecessors [B, N], where the first node points at itself, as one-hot rows [B, N, N] in which it points at the
    last node; and which node is the first, one-hot [B, N].

    >>> permutation, first = cyclic_permutation(np.array([[2, 1, 1]]))
    >>> permutation.tolist(), first.tolist()
    ([[[0, 0, 1], [1, 0, 0], [0, 1, 0]]], [[0, 1, 0]])
    """
    nodes = np.arange(predecessors.shape[1])
    first = predecessors == nodes
    is_followed = (predecessors[:, :, None] == nodes).any(axis=1)
    if predecessors.shape[1] == 1:
        is_followed[:] = False  # a lone node is the last one, too
    last = np.logical_not(is_followed).argmax(axis=1)
    cyclic = np.where(first, last[:, None], predecessors)
    return (cyclic[:, :, None] == nodes).astype(np.int8), first.astype(np.int8)
