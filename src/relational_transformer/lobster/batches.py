"""The order in which every seed sees the training graphs, and how a batch is cut into groups of similar size."""

from dataclasses import dataclass

import numpy as np

MOST_GROUPS = 8
GRAPHS_OF_A_GROUP = 16
"""Of all seeds together, at least; smaller groups would keep no device busy."""
NODES_PER_BUCKET = 8


@dataclass(frozen=True)
class Draw:
    """Graphs of some training steps: index [steps, G, S, B / G], and the nodes to pad each group to, [steps][G]."""

    index: np.ndarray
    num_nodes: list[list[int]]


def draw(seeds: tuple[int, ...], first_step: int, num_steps: int, batch_size: int, num_examples: int) -> np.ndarray:
    """Indices [steps, S, B] of the graphs that each seed trains on in the steps from `first_step` on.

    Every epoch a seed goes through all graphs in a new order; a batch that an epoch does not fill takes the rest from
    the next one. The order depends on the seed and the epoch alone, so a run resumes anywhere.
    """
    begin, end = first_step * batch_size, (first_step + num_steps) * batch_size
    epochs = range(begin // num_examples, -(-end // num_examples))

    def of_seed(seed: int) -> np.ndarray:
        orders = [
            np.random.Generator(np.random.Philox(key=[seed, 1], counter=[0, 0, 0, epoch])).permutation(num_examples)
            for epoch in epochs
        ]
        offset = epochs.start * num_examples
        return np.concatenate(orders)[begin - offset : end - offset].reshape(num_steps, batch_size)

    return np.stack([of_seed(seed) for seed in seeds], axis=1)


def node_buckets(num_nodes: np.ndarray) -> list[int]:
    """Numbers of nodes to pad to: multiples of 8, and the largest graph's.

    >>> node_buckets(np.array([5, 19, 9]))
    [8, 16, 19]
    """
    largest = int(num_nodes.max())
    return [*range(NODES_PER_BUCKET, largest, NODES_PER_BUCKET), largest]


def number_of_groups(num_seeds: int, batch_size: int) -> int:
    """Into how many groups of one size batches are cut.

    >>> number_of_groups(1, 32), number_of_groups(20, 32), number_of_groups(20, 7), number_of_groups(1, 4)
    (2, 8, 7, 1)
    """
    most = min(MOST_GROUPS, num_seeds * batch_size // GRAPHS_OF_A_GROUP)
    return next((count for count in range(most, 0, -1) if batch_size % count == 0), 1)


def group_by_size(index: np.ndarray, num_nodes: np.ndarray, buckets: list[int]) -> Draw:
    """Sort every batch of `index` [steps, S, B] by the nodes of its graphs and cut it into groups, small ones first.

    Batches stay what chance made them; but small graphs need not be padded to the size of the largest, which would be
    twice the work.
    """
    steps, seeds, batch_size = index.shape
    groups = number_of_groups(seeds, batch_size)
    order = num_nodes[index].argsort(axis=-1, kind="stable")
    grouped = np.take_along_axis(index, order, axis=-1).reshape(steps, seeds, groups, -1).swapaxes(1, 2)
    largest = num_nodes[grouped].max(axis=(2, 3))  # [steps, G]
    padded = np.asarray(buckets)[np.searchsorted(buckets, largest)]
    return Draw(np.ascontiguousarray(grouped), padded.tolist())
