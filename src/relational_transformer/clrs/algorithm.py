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
        trace: compiled (example, drawn, hints, outputs, row) -> row. Runs one example, writes a row of every hint for
            each step from `row` on, writes the outputs at `example`, and gives back the first row it did not use.
        longest: `Drawn` -> a number of steps that no trace of these examples can exceed. Compiled code writes without
            looking, so this has to be right; where only a wasteful number would be, the trace looks, and gives up with
            `OUT_OF_ROWS` for want of room, to be run again with more.
        shortest: the smallest length that makes sense.
        draw_varied: `draw` as the modern protocol has it in training and validation, with more variety; the same where
            None.
        shortest_varied: the smallest length that `draw_varied` takes; `shortest` where None.
    """

    draw: Draw
    features: Callable[[Drawn], dict[str, np.ndarray]]
    trace: Callable[..., int]
    longest: Callable[[Drawn], int]
    shortest: int = 1
    draw_varied: Draw | None = None
    shortest_varied: int | None = None
