"""Run an algorithm over drawn examples and collect its traces, padded to the longest, in narrow arrays.

Traces differ in length, so they are first written one after the other into rows of a scratch buffer that fits into the
processor's cache, and then moved to where they belong in the time-first arrays.
"""

import functools
from collections.abc import Callable

import numpy as np

from relational_transformer.clrs.algorithm import OUT_OF_ROWS, Drawn
from relational_transformer.clrs.algorithms import implementation_of
from relational_transformer.clrs.compiled import compiled_entry, entry
from relational_transformer.clrs.feature import FeatureSpec, Location, Spec, Stage, Type
from relational_transformer.clrs.trajectories import Arrays

SCRATCH_BYTES = 4 * 2**20

_DTYPES = {
    Type.SCALAR: np.float32,
    Type.CATEGORICAL: np.int8,
    Type.MASK: np.int8,
    Type.MASK_ONE: np.int8,
    Type.POINTER: np.int16,
    Type.SHOULD_BE_PERMUTATION: np.int16,
    Type.PERMUTATION_POINTER: np.int8,
}
_AXES = {Location.GRAPH: 0, Location.NODE: 1, Location.EDGE: 2}


def dtype_of(feature: FeatureSpec) -> np.dtype:
    """The narrow type that a feature is kept in."""
    return np.dtype(_DTYPES[feature.type])


def shape_of(feature: FeatureSpec, num_nodes: int) -> tuple[int, ...]:
    """Shape of a feature of one example (at one step)."""
    classes = () if feature.classes is None else (feature.classes,)
    one_hot = feature.type == Type.PERMUTATION_POINTER
    return (num_nodes,) * (_AXES[feature.location] + one_hot) + classes


def allocate(spec: Spec, stage: Stage, leading: tuple[int, ...], num_nodes: int) -> Arrays:
    """Zeros for every feature of a stage, with `leading` axes before its own."""
    return {
        name: np.zeros(leading + shape_of(feature, num_nodes), dtype_of(feature))
        for name, feature in spec.items()
        if feature.stage == stage
    }


class HintRecorder:
    """Traces batch after batch of drawn examples into hints [T, B, ...] that grow with the longest trace so far."""

    def __init__(self, name: str, spec: Spec, num_samples: int, num_nodes: int):
        self._implementation = implementation_of(name)
        self._run = _runner(name)
        self._spec = spec
        self._num_nodes = num_nodes
        self._hints = allocate(spec, Stage.HINT, (0, num_samples), num_nodes)
        self._row_bytes = sum(array.itemsize * int(np.prod(array.shape[2:])) for array in self._hints.values())
        self._scratch: Arrays = {}
        self.lengths = np.zeros(num_samples, np.int32)

    @property
    def hints(self) -> Arrays:
        """The hints so far, padded with zeros to the longest trace so far."""
        steps = int(self.lengths.max(initial=0))
        return {name: array[:steps] for name, array in self._hints.items()}

    def record(self, drawn: Drawn, outputs: Arrays, first: int) -> None:
        """Trace the drawn examples, the first of which is number `first`; `outputs` are theirs alone."""
        count = len(drawn[0])
        longest = self._implementation.longest(drawn)
        rows = longest + SCRATCH_BYTES // self._row_bytes
        ends = np.zeros(count, np.int64)
        done = 0
        while done < count:
            self._make_room(rows)
            before = done
            done = self._run(drawn, tuple(self._scratch.values()), tuple(outputs.values()), ends, done, longest, 0)
            if done == before:
                rows *= 2
                continue
            starts = np.concatenate([[0], ends[before : done - 1]])
            self._collect(first + before, starts, ends[before:done])

    def _make_room(self, rows: int) -> None:
        if not self._scratch or len(next(iter(self._scratch.values()))) < rows:
            self._scratch = {
                name: np.empty((rows, *array.shape[2:]), array.dtype) for name, array in self._hints.items()
            }

    def _collect(self, first: int, starts: np.ndarray, ends: np.ndarray) -> None:
        """Move the rows starts[k] .. ends[k] - 1 of the scratch buffer to example first + k."""
        self.lengths[first : first + len(ends)] = ends - starts
        longest = int((ends - starts).max())
        self._reserve(longest)
        for name, rows in self._scratch.items():
            _scatter(_as_bytes(rows, 1), starts, ends, _as_bytes(self._hints[name], 2), first, longest)

    def _reserve(self, steps: int) -> None:
        capacity, num_samples = next(iter(self._hints.values())).shape[:2]
        if steps <= capacity:
            return
        # Zeros that are never written take no memory, so room for longer traces costs nothing.
        steps = 2 * steps
        grown = allocate(self._spec, Stage.HINT, (steps, num_samples), self._num_nodes)
        for name, array in self._hints.items():
            grown[name][:capacity] = array
        self._hints = grown


def _trace(example, drawn, hints, outputs, row):
    """Stands for the algorithm's own trace, which `_runner` puts in its place."""
    raise NotImplementedError


def _run_examples(drawn, hints, outputs, ends, example, longest, row):
    """Trace from `example` on while the longest possible trace fits into the rows left; return the first not traced.

    `row` is the first row to write. (Were it a 0 in here, numba would compile each trace twice, once for the constant.)
    """
    while example < len(ends) and row + longest <= len(hints[0]):
        row = _trace(example, drawn, hints, outputs, row)
        if row == OUT_OF_ROWS:
            break
        ends[example] = row
        example += 1
    return example


@functools.cache
def _runner(name: str) -> Callable[..., int]:
    return compiled_entry(_run_examples, f"run_{name}", _trace=implementation_of(name).trace)


def _as_bytes(array: np.ndarray, leading: int) -> np.ndarray:
    """All but the leading axes as one axis of bytes: what is only moved needs no type, and one function moves all."""
    return array.reshape(*array.shape[:leading], -1).view(np.int8)


@entry
def _scatter(rows, starts, ends, padded, first, longest):
    """rows [R, bytes], one trace after the other -> padded [T, B, bytes], from example `first` on."""
    for step in range(longest):
        for k in range(len(starts)):
            row = starts[k] + step
            if row < ends[k]:
                for byte in range(rows.shape[1]):
                    padded[step, first + k, byte] = rows[row, byte]
