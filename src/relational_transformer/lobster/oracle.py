"""The meaning of a relative loss: it is compared with an oracle that is right up to a distance, and predicts that
distance beyond it.

Thirty layers of message passing reach thirty steps, and few distances in training are above 33. A model that has learnt
these distances alone is such an oracle, and its relative loss tells how far it sees.
"""

import numpy as np

CAPS = (14, 23, 28, 30)
"""Oracles whose losses are near those of the paper's models: 0.44, 0.28, 0.215, 0.19."""


def relative_loss(predictions: np.ndarray, distances: np.ndarray) -> float:
    """The mean of |y - ŷ| / |y|."""
    return float(np.mean(np.abs(predictions - distances) / np.abs(distances)))


def oracle_loss(distances: np.ndarray, cap: float) -> float:
    """The relative loss of predicting min(y, cap).

    >>> oracle_loss(np.array([10.0, 20.0, 40.0]), cap=20)
    0.16666666666666666
    """
    return relative_loss(np.minimum(distances, cap), distances)


def equivalent_cap(distances: np.ndarray, loss: float) -> float | None:
    """The cap of the oracle that has this relative loss: the largest distance if the loss is 0, None if it is above 1,
    because no oracle is worse than one that predicts 0.

    >>> equivalent_cap(np.array([10.0, 20.0, 40.0]), 1 / 6)
    20.0
    """
    if loss > 1:
        return None
    low, high = 0.0, float(np.max(distances))
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if oracle_loss(distances, middle) > loss else (low, middle)
    return round(high, 6)


def oracle_losses(distances: np.ndarray) -> list[dict[str, float]]:
    """The relative losses of the oracles of `CAPS`, in the format of a result."""
    return [{"cap": cap, "test": oracle_loss(distances, cap)} for cap in CAPS]


def meaning(loss: float, distances: np.ndarray) -> str:
    """A sentence that names the oracle with this relative loss on graphs of these distances, beside some others."""
    others = ", ".join(f"{oracle_loss(distances, cap):.3f} at {cap}" for cap in CAPS)
    cap = equivalent_cap(distances, loss)
    if cap is None:
        return f"{loss:.3f} is worse than predicting 0 for all, which gives 1. A model that generalises is near 0."
    return (
        f"{loss:.3f} is what predicting min(y, {cap:.1f}) gives on this test set: right up "
        f"to there, the same number beyond ({others}). A model that generalises is near 0."
    )
