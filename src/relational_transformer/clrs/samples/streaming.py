"""Fresh examples without end, for training on the fly: `stream(name, batch_size, length, seed)`."""

import itertools
import multiprocessing
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from relational_transformer.clrs.checks import check_count, check_length, check_name, check_seed, check_version
from relational_transformer.clrs.feature import FeatureVersion
from relational_transformer.clrs.samples.sampling import sample
from relational_transformer.clrs.trajectories import Trajectories

# Batches under way for each worker, so that it need not wait while a batch is being used.
AHEAD = 2


def stream(
    name: str,
    batch_size: int,
    length: int,
    seed: int,
    *,
    workers: int = 0,
    first_batch: int = 0,
    version: FeatureVersion | None = None,
) -> Iterator[Trajectories]:
    """Batches of new examples, which do not depend on the number of workers. Batch k is drawn from a seed made of
    `seed` and k, so the stream can be resumed at any batch.

    Args:
        name: one of `ALGORITHMS`.
        batch_size: examples a batch.
        length: size of the problem, as in `sample`.
        seed: of the whole stream, 0 .. 2^32 - 1.
        workers: processes that make batches in advance; with 0 they are made in this process. A script with workers
            needs `if __name__ == "__main__":`, because they import it.
        first_batch: number of the batch to begin with.
        version: features of dm-clrs "1.0", as in the paper, or "2.0".

    >>> batches = stream("bfs", batch_size=3, length=8, seed=0)
    >>> next(batches).inputs["A"].shape, next(batches).inputs["A"].shape
    ((3, 8, 8), (3, 8, 8))
    """
    check_name(name)
    batch_size = check_count(batch_size, "batch_size")
    version = check_version(version)
    check_length(name, length, version)
    seed = check_seed(seed)
    workers = check_count(workers, "number of workers", smallest=0)
    first_batch = check_count(first_batch, "first_batch", smallest=0)
    requests = ((name, batch_size, length, seed, batch, version) for batch in itertools.count(first_batch))
    if workers == 0:
        return itertools.starmap(_make_batch, requests)
    return _from_workers(requests, workers)


def _make_batch(
    name: str, batch_size: int, length: int, seed: int, batch: int, version: FeatureVersion
) -> Trajectories:
    (own_seed,) = np.random.SeedSequence((seed, batch)).generate_state(1)
    return sample(name, batch_size, length, int(own_seed), version=version)


def _from_workers(requests: Iterator[tuple], workers: int) -> Iterator[Trajectories]:
    # Workers start afresh instead of as copies of this process, whose threads (torch's, CUDA's) they could not share.
    executor = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    try:
        first = itertools.islice(requests, AHEAD * workers)
        coming = deque(executor.submit(_make_batch, *request) for request in first)
        while True:
            batch = coming.popleft().result()
            coming.append(executor.submit(_make_batch, *next(requests)))
            yield batch
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
