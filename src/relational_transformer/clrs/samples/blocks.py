"""Fresh examples for training by the modern protocol, in numbered blocks: `training_blocks(name, seeds)`.

A block is drawn from the seeds of a run and its own number, so any block can be made anywhere and in any order: a
run can be resumed from the number of its next block. The examples have the distribution of dm-clrs (`ReferenceRun`):
the same samplers with other seeds.
"""

import itertools
from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from relational_transformer.clrs.checks import check_count, check_length, check_name, check_seed
from relational_transformer.clrs.samples.modern import training_lengths
from relational_transformer.clrs.samples.sampling import modern_sample
from relational_transformer.clrs.trajectories import Trajectories

# Blocks that are made, or being made, while another is used.
AHEAD = 2


@dataclass(frozen=True)
class TrainingBlock:
    """The examples of some updates of one or several seeds. Sizes take turns: update k has size k modulo their number.

    Attributes:
        number: the number of the block in its run.
        sizes: the examples of each size in the order of their turns, of all seeds, one seed after the other.
        num_seeds: the number of seeds.
        batch_size: examples an update of each seed.

    >>> block = training_block("bfs", seeds=(1, 2), number=0, updates=10, batch_size=3)
    >>> block.updates, [data.num_nodes for data in block.sizes]
    (10, [4, 7, 11, 13, 16])
    >>> turn, examples = block.batch(6)
    >>> turn, examples.tolist()
    (1, [[3, 4, 5], [9, 10, 11]])
    """

    number: int
    sizes: tuple[Trajectories, ...]
    num_seeds: int
    batch_size: int

    @property
    def updates(self) -> int:
        """The number of updates in the block."""
        return len(self.sizes) * (len(self.sizes[0]) // (self.num_seeds * self.batch_size))

    def batch(self, update: int) -> tuple[int, np.ndarray]:
        """The examples of one update: the index into `sizes`, and the indices of the examples there, int64 [S, B]."""
        if not 0 <= update < self.updates:
            raise ValueError(f"The update is {update}; the block has 0 .. {self.updates - 1}.")
        before, turn = divmod(update, len(self.sizes))
        of_a_seed = len(self.sizes[turn]) // self.num_seeds
        seeds = np.arange(self.num_seeds)[:, None] * of_a_seed
        return turn, seeds + before * self.batch_size + np.arange(self.batch_size)


def training_block(
    name: str,
    seeds: Sequence[int],
    number: int,
    *,
    updates: int = 50,
    batch_size: int = 32,
    lengths: Sequence[int] | None = None,
) -> TrainingBlock:
    """Make one block. The examples of a seed do not depend on the other seeds.

    Args:
        name: one of `ALGORITHMS`.
        seeds: of the runs, 0 .. 2^32 - 1 each.
        number: of the block, from 0. Block n holds the updates from n * `updates` on.
        updates: updates a block; a multiple of the number of sizes. A run with longer or shorter blocks trains on other
            examples.
        batch_size: examples an update of each seed.
        lengths: the sizes that take turns; by default `training_lengths(name)`.

    >>> training_block("kmp_matcher", seeds=[7], number=3, updates=2, batch_size=4).sizes[0].inputs["key"].shape
    (8, 20, 4)
    """
    request = _checked(name, seeds, updates, batch_size, lengths)
    number = check_count(number, "number of the block", smallest=0)
    return _made(request, number)


def training_blocks(
    name: str,
    seeds: Sequence[int],
    *,
    first_block: int = 0,
    updates: int = 50,
    batch_size: int = 32,
    lengths: Sequence[int] | None = None,
    workers: int = 1,
) -> Generator[TrainingBlock, None, None]:
    """Blocks without end, made ahead of their use by threads: `training_block` of `first_block` and all that follow.

    Threads are enough, because drawing and tracing are compiled code, which runs beside Python (but not without
    numba).

    Args:
        name: one of `ALGORITHMS`.
        seeds: of the runs.
        first_block: number of the block to begin with.
        updates: updates a block.
        batch_size: examples an update of each seed.
        lengths: the sizes that take turns.
        workers: threads that make blocks; with 0 each block is made when it is requested. The blocks are the same.

    >>> blocks = training_blocks("bfs", seeds=[0], first_block=5, updates=5, batch_size=2)
    >>> next(blocks).number, next(blocks).number
    (5, 6)
    >>> blocks.close()
    """
    request = _checked(name, seeds, updates, batch_size, lengths)
    first_block = check_count(first_block, "first_block", smallest=0)
    workers = check_count(workers, "number of workers", smallest=0)
    if workers == 0:
        return (_made(request, number) for number in itertools.count(first_block))
    return _from_threads(request, first_block, workers)


@dataclass(frozen=True)
class _Request:
    name: str
    seeds: tuple[int, ...]
    updates: int
    batch_size: int
    lengths: tuple[int, ...]


def _checked(name: str, seeds: Sequence[int], updates: int, batch_size: int, lengths: Sequence[int] | None) -> _Request:
    check_name(name)
    lengths = training_lengths(name) if lengths is None else tuple(lengths)
    if not lengths or not seeds:
        raise ValueError("A block needs at least one seed and one length.")
    lengths = tuple(check_length(name, length, "2.0", varied=True) for length in lengths)
    updates = check_count(updates, "number of updates")
    if updates % len(lengths):
        raise ValueError(
            f"The number of updates is {updates}; {len(lengths)} sizes take turns, so it must be a multiple of that."
        )
    return _Request(
        name, tuple(check_seed(seed) for seed in seeds), updates, check_count(batch_size, "batch_size"), lengths
    )


def _turn(request: _Request, number: int, turn: int) -> Trajectories:
    """The examples of one size."""
    own_seeds = [int(np.random.SeedSequence((seed, number, turn)).generate_state(1)[0]) for seed in request.seeds]
    of_a_seed = request.updates // len(request.lengths) * request.batch_size
    return modern_sample(request.name, of_a_seed, request.lengths[turn], own_seeds)


def _made(request: _Request, number: int) -> TrainingBlock:
    return _block(request, number, [_turn(request, number, turn) for turn in range(len(request.lengths))])


def _block(request: _Request, number: int, sizes: Sequence[Trajectories]) -> TrainingBlock:
    return TrainingBlock(number, tuple(sizes), len(request.seeds), request.batch_size)


def _from_threads(request: _Request, first_block: int, workers: int) -> Generator[TrainingBlock, None, None]:
    numbers = itertools.count(first_block)
    executor = ThreadPoolExecutor(workers, thread_name_prefix="training-blocks")

    def begin():
        number = next(numbers)
        # The largest size, which takes longest, first.
        turns = reversed(range(len(request.lengths)))
        return number, {turn: executor.submit(_turn, request, number, turn) for turn in turns}

    try:
        coming = deque(begin() for _ in range(AHEAD))
        while True:
            coming.append(begin())
            number, futures = coming.popleft()
            yield _block(request, number, [futures[turn].result() for turn in range(len(request.lengths))])
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
