"""Where a prediction is wrong, element by element."""

import numpy as np

from relational_transformer.analysis.hint_scores import TOLERANCE
from relational_transformer.clrs.spec import FeatureSpec, Type


def find_mistakes(feature: FeatureSpec, predicted: np.ndarray, truth: np.ndarray, spread: float = 1.0) -> np.ndarray:
    """Which elements, in the plain form, are wrong. What has no meaning is never wrong; a scalar is where it is off by
    more than a quarter of its `spread`.

    >>> from relational_transformer.clrs import SPECS
    >>> find_mistakes(SPECS["bfs"]["pi"], np.array([0, 2, 1]), np.array([0, 0, 1]))
    array([False,  True, False])
    """
    if feature.type == Type.SCALAR:
        return ~(np.abs(predicted.astype(np.float64) - truth) <= TOLERANCE * spread)
    if feature.type in (Type.MASK, Type.CATEGORICAL):
        return (predicted != truth) & (truth >= 0)
    return predicted != truth
