"""The batches of one training run by the modern protocol, bit for bit as dm-clrs makes them: `ReferenceRun`.

It shows that our samplers are those of dm-clrs. For training use `training_blocks`: the same samplers with other
seeds, faster, and resumable at any block.
"""

from dataclasses import replace

import numpy as np

from relational_transformer.clrs.checks import check_count, check_length, check_name, check_seed
from relational_transformer.clrs.dataset import canonical_split
from relational_transformer.clrs.samples.modern import modern_form, training_lengths
from relational_transformer.clrs.samples.random import open_stream, whole_numbers
from relational_transformer.clrs.samples.sampling import trace
from relational_transformer.clrs.spec import spec_of
from relational_transformer.clrs.trajectories import Trajectories

# Examples of each size that dm-clrs traces before it begins, to see how long traces get.
WARM_UP = 1000


class ReferenceRun:
    """The batches that dm-clrs' own training script draws with a seed: training batches of several sizes in turn,
    and validation batches.

    All batches share one stream of random positions, so they depend on the order of the calls. Hints are
    padded to the longest trace of that size so far, the warm-up included.

    Args:
        name: one of `ALGORITHMS`.
        seed: of the run, 0 .. 2^32 - 1 (dm-clrs: 42).
        batch_size: examples a batch.

    >>> run = ReferenceRun("minimum", seed=42)
    >>> [run.training_batch().num_nodes for _ in range(6)], run.validation_batch().num_nodes
    ([4, 7, 11, 13, 16, 4], 16)
    """

    def __init__(self, name: str, seed: int, batch_size: int = 32):
        self.name = check_name(name)
        self.batch_size = check_count(batch_size, "batch_size")
        self._positions = np.random.RandomState(check_seed(seed))
        self._positions.randint(2**32)  # the seed of the network's parameters
        self._lengths = training_lengths(name)
        self._streams = [open_stream(self._positions.randint(2**32)) for _ in self._lengths]
        self._steps = [
            self._draw(WARM_UP, length, stream).num_steps
            for length, stream in zip(self._lengths, self._streams, strict=True)
        ]
        self._turn = 0
        self._pool_stream = open_stream(self._positions.randint(2**32))
        pool_size = canonical_split(name, "val", protocol="modern").num_samples
        self._pool = self._draw(pool_size, self._lengths[-1], self._pool_stream)

    @property
    def validation_examples(self) -> int:
        """Size of the pool that validation batches are drawn from, with replacement."""
        return len(self._pool)

    def training_batch(self) -> Trajectories:
        """The next training batch, all of one size."""
        turn = self._turn
        self._turn = (turn + 1) % len(self._lengths)
        batch = self._draw(self.batch_size, self._lengths[turn], self._streams[turn])
        self._steps[turn] = max(self._steps[turn], batch.num_steps)
        return self._modern(_padded(batch, self._steps[turn]))

    def validation_batch(self) -> Trajectories:
        """The next validation batch: examples may come more than once, each time with new positions."""
        chosen = whole_numbers(self._pool_stream, len(self._pool), self.batch_size)
        return self._modern(_padded(self._pool.select(chosen), self._pool.num_steps))

    def _draw(self, count: int, length: int, stream: np.ndarray) -> Trajectories:
        length = check_length(self.name, length, "2.0", varied=True)
        return trace(self.name, count, length, [stream], spec_of(self.name, "2.0"), varied=True)

    def _modern(self, batch: Trajectories) -> Trajectories:
        positions = self._positions.uniform(size=(len(batch), batch.num_nodes))
        return modern_form(self.name, batch, positions)


def _padded(data: Trajectories, steps: int) -> Trajectories:
    """With zeros after the longest trace, up to `steps`."""
    missing = steps - data.num_steps

    def padded(array: np.ndarray) -> np.ndarray:
        return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])

    return replace(data, hints={name: padded(array) for name, array in data.hints.items()})
