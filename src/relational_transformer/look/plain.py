"""Features in the plainest form: what a page draws. One example, no one-hots.

| type | plain | shape |
|---|---|---|
| scalar | float32 | of its location: [] of a graph, [N] of nodes, [N, N] of edges |
| mask | int8: 0, 1, or -1 without meaning | the same |
| categorical | int8: the class, or -1 without meaning | the same |
| pointer, permutation | int16: the node pointed to; the first of an order points to itself | the same |
| mask_one | int16: the node | [] |
"""

import numpy as np

from relational_transformer.clrs.spec import FeatureSpec, Spec, Stage, Type
from relational_transformer.clrs.trajectories import Arrays, Trajectories


def plain(feature: FeatureSpec, data: np.ndarray) -> np.ndarray:
    """Data of a feature, with any axes in front, in the plain form.

    >>> from relational_transformer.clrs import SPECS
    >>> plain(SPECS["bfs"]["s"], np.array([[0, 0, 1], [1, 0, 0]]))
    array([2, 0], dtype=int16)
    """
    match feature.type:
        case Type.SCALAR:
            return data.astype(np.float32)
        case Type.MASK:
            return data.astype(np.int8)
        case Type.CATEGORICAL:
            has_meaning = (data > 0).any(-1) & (data >= 0).all(-1)
            return np.where(has_meaning, data.argmax(-1), -1).astype(np.int8)
        case Type.MASK_ONE | Type.PERMUTATION_POINTER:
            return data.argmax(-1).astype(np.int16)
        case _:
            return data.astype(np.int16)


def plain_example(spec: Spec, data: Trajectories) -> Arrays:
    """All features of the first example by name: hints [T, ...], inputs and outputs without an axis of steps."""
    steps = int(data.lengths[0])
    arrays = {name: plain(spec[name], values[0]) for name, values in data.inputs.items()}
    arrays |= {name: plain(spec[name], values[:steps, 0]) for name, values in data.hints.items()}
    return arrays | plain_outputs(spec, {name: values[0] for name, values in data.outputs.items()})


def plain_outputs(spec: Spec, outputs: Arrays) -> Arrays:
    """Outputs of one example. The first node of a permutation, which an output of its own names, points to itself."""
    arrays = {name: plain(spec[name], values) for name, values in outputs.items()}
    for name, values in arrays.items():
        if spec[name].type == Type.PERMUTATION_POINTER and f"{name}_mask" in arrays:
            first = arrays[f"{name}_mask"]
            arrays[name] = np.where(np.arange(values.shape[-1]) == first, first, values).astype(np.int16)
    return arrays


def names_of(spec: Spec, stage: Stage) -> list[str]:
    """The features of a stage, in the spec's order."""
    return [name for name, feature in spec.items() if feature.stage == stage]
