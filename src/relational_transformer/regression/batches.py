"""The order in which every seed sees the training graphs, and how a batch is cut into groups of similar size."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

MOST_GROUPS = 8
GRAPHS_OF_A_GROUP = 64
"""Of all seeds together: smaller groups are padded less, but would keep no device busy."""
GRAPHS_OF_A_HALF = 16
"""A batch with so many graphs in either half is cut in two all the same, so much does padding take."""
MOST_BUCKETS = 4
"""Numbers of nodes that groups are padded to: every one is another layer to compile."""
NODES_PER_BUCKET = 8
"""By default."""
STEPS_TO_LOOK_AT = 200
"""Of which the sizes of groups are taken to be typical."""


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


def node_buckets(num_nodes: np.ndarray, num_seeds: int, batch_size: int, multiple: int = NODES_PER_BUCKET) -> list[int]:
    """Few numbers of nodes to pad groups to, multiples of one number with room for the largest graph.

    They are those with which typical steps of so many seeds have the fewest pairs of nodes.

    >>> node_buckets(np.arange(4, 52), num_seeds=2, batch_size=32)
    [24, 32, 40, 56]
    """
    index = draw(tuple(range(num_seeds)), 0, STEPS_TO_LOOK_AT, batch_size, len(num_nodes))
    needed, counts = np.unique(_round_up(_in_groups(index, num_nodes)[1], multiple), return_counts=True)
    largest = int(_round_up(num_nodes.max(), multiple))
    smaller = needed[needed < largest].tolist()
    most = min(MOST_BUCKETS - 1, len(smaller))
    choices = [np.array([*chosen, largest]) for chosen in combinations(smaller, most)]
    pairs = [counts @ buckets[np.searchsorted(buckets, needed)] ** 2 for buckets in choices]
    return choices[int(np.argmin(pairs))].tolist()


def number_of_groups(num_seeds: int, batch_size: int) -> int:
    """Into how many groups of one size batches are cut.

    >>> number_of_groups(1, 32), number_of_groups(2, 32), number_of_groups(20, 32), number_of_groups(1, 4)
    (2, 2, 8, 1)
    """
    graphs = num_seeds * batch_size
    most = min(MOST_GROUPS, max(graphs // GRAPHS_OF_A_GROUP, min(2, graphs // GRAPHS_OF_A_HALF)))
    return next((count for count in range(most, 0, -1) if batch_size % count == 0), 1)


def group_by_size(index: np.ndarray, num_nodes: np.ndarray, buckets: list[int]) -> Draw:
    """Sort every batch of `index` [steps, S, B] by the nodes of its graphs and cut it into groups, small ones first.

    Batches stay what chance made them; but small graphs need not be padded to the size of the largest, which would be
    twice the work.
    """
    grouped, largest = _in_groups(index, num_nodes)
    padded = np.asarray(buckets)[np.searchsorted(buckets, largest)]
    return Draw(np.ascontiguousarray(grouped), padded.tolist())


def _in_groups(index: np.ndarray, num_nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Batches [steps, S, B] as groups [steps, G, S, B / G], and the nodes of the largest graph of each, [steps, G]."""
    steps, seeds, batch_size = index.shape
    groups = number_of_groups(seeds, batch_size)
    order = num_nodes[index].argsort(axis=-1, kind="stable")
    grouped = np.take_along_axis(index, order, axis=-1).reshape(steps, seeds, groups, -1).swapaxes(1, 2)
    return grouped, num_nodes[grouped].max(axis=(2, 3))


def _round_up(num_nodes: np.ndarray, multiple: int) -> np.ndarray:
    return -(-num_nodes // multiple) * multiple
