"""A batch of examples, each with its inputs, its whole trace and its outputs, in narrow arrays."""

import hashlib
from dataclasses import dataclass

import numpy as np

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Trajectories:
    """B examples of one algorithm on N nodes; the longest trace has T steps.

    Attributes:
        inputs: feature -> array, batch first: node [B, N], edge [B, N, N], graph [B]; a categorical has its classes
        last. hints: feature -> array, time first: [T, B, ...]; zeros after the end of a trace. outputs: feature ->
        array, batch first like the inputs. lengths: int32 [B], the number of steps of each trace:
        hints[name][:lengths[b], b] is example b's.

    Scalars are float32; masks, mask_ones and categoricals int8 (0, 1, and -1 for "no meaning here"); pointers int16.

    >>> from relational_transformer.clrs import sample
    >>> data = sample("minimum", num_samples=3, length=5, seed=0)
    >>> len(data), data.num_nodes, data.num_steps, list(data.inputs), data.outputs["min"].shape
    (3, 5, 5, ['pos', 'key'], (3, 5))
    """

    inputs: Arrays
    hints: Arrays
    outputs: Arrays
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def num_steps(self) -> int:
        """T: steps of the longest trace, which all hints are padded to."""
        return next(iter(self.hints.values())).shape[0]

    @property
    def num_nodes(self) -> int:
        """N: nodes of every example (every algorithm has a node feature among its inputs: its position)."""
        return self.inputs["pos"].shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays together."""
        stages = (self.inputs, self.hints, self.outputs)
        return self.lengths.nbytes + sum(array.nbytes for stage in stages for array in stage.values())

    def select(self, indices: np.ndarray | slice) -> "Trajectories":
        """The examples at `indices`, their hints padded only as far as the longest trace among them."""
        lengths = self.lengths[indices]
        steps = int(lengths.max(initial=0))
        return Trajectories(
            inputs={name: array[indices] for name, array in self.inputs.items()},
            hints={name: array[:steps, indices] for name, array in self.hints.items()},
            outputs={name: array[indices] for name, array in self.outputs.items()},
            lengths=lengths,
        )

    def digest(self) -> str:
        """SHA-256 over names, shapes and float32 bytes of inputs, outputs, hints and lengths, in that order."""
        sha = hashlib.sha256()
        stages = (("input", self.inputs), ("output", self.outputs), ("hint", self.hints))
        for stage, arrays in (*stages, ("lengths", {"lengths": self.lengths})):
            for name, array in arrays.items():
                values = np.ascontiguousarray(array, dtype="<f4")
                sha.update(f"{stage} {name} {values.shape}\n".encode())
                sha.update(values.tobytes())
        return sha.hexdigest()
