"""An algorithm of the benchmark: the distribution of its inputs, its input features, and its trace."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

OUT_OF_ROWS = -1

Drawn = tuple[np.ndarray, ...]
"""Drawn inputs at full precision, batch first: float64 keys [B, N], a weight matrix [B, N, N], ..."""

Draw = Callable[[np.ndarray, int, int], Drawn]


@dataclass(frozen=True)
class Algorithm:
    """One algorithm.

    Attributes:
        draw: (stream, count, length) -> `Drawn`, the next `count` examples of the stream.
        features: `Drawn` -> the input features by name, float or integer arrays, batch first.
        trace: compiled (example, drawn, hints, outputs, row) -> row. Runs one example, writes a row of every hint
            for each step from `row` on, writes the outputs at `example`, and returns the first row that it did not
            use.
        longest: `Drawn` -> a number of steps that no trace of these examples can exceed. Compiled code writes
            without checking bounds, so this must be right. Where only a wasteful bound is certain, the trace checks,
            and returns `OUT_OF_ROWS` to be run again with more room.
        shortest: the smallest valid length.
        draw_varied: `draw` for training and validation of the modern protocol, with more variety; None for the same
            `draw`.
        shortest_varied: the smallest length that `draw_varied` takes; None for `shortest`.
    """

    draw: Draw
    features: Callable[[Drawn], dict[str, np.ndarray]]
    trace: Callable[..., int]
    longest: Callable[[Drawn], int]
    shortest: int = 1
    draw_varied: Draw | None = None
    shortest_varied: int | None = None
