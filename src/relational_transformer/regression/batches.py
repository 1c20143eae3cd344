"""The order in which every seed sees the training graphs, and the cutting of a batch into groups of similar size."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

MOST_GROUPS = 8
GRAPHS_OF_A_GROUP = 64
"""The least number of graphs in a group, over all seeds: smaller groups have less padding, but do not fill a device."""
GRAPHS_OF_A_HALF = 16
"""A batch is cut in two anyway if each half has this many graphs, because padding costs more."""
MOST_BUCKETS = 4
"""The largest number of sizes that groups are padded to. The layer is compiled for each of them."""
NODES_PER_BUCKET = 8
"""By default."""
STEPS_TO_LOOK_AT = 200
"""The number of training steps from which typical sizes of groups are taken."""


@dataclass(frozen=True)
class Draw:
    """The graphs of some training steps, [steps, G, S, B / G], and the number of nodes to which each group is padded,
    [steps][G]."""

    index: np.ndarray
    num_nodes: list[list[int]]


def draw(seeds: tuple[int, ...], first_step: int, num_steps: int, batch_size: int, num_examples: int) -> np.ndarray:
    """Indices [steps, S, B] of the graphs that each seed trains on in the steps from `first_step` on.

    In every epoch a seed sees all graphs in a new order. A batch may span two epochs. The order depends on the seed and
    the epoch alone, so a run can be resumed anywhere.
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
    """The sizes to which groups are padded: a few multiples of `multiple`, with room for the largest graph.

    They are chosen so that typical steps of `num_seeds` seeds have the fewest pairs of nodes.

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
    """The number of groups of one size into which a batch is cut.

    >>> number_of_groups(1, 32), number_of_groups(2, 32), number_of_groups(20, 32), number_of_groups(1, 4)
    (2, 2, 8, 1)
    """
    graphs = num_seeds * batch_size
    most = min(MOST_GROUPS, max(graphs // GRAPHS_OF_A_GROUP, min(2, graphs // GRAPHS_OF_A_HALF)))
    return next((count for count in range(most, 0, -1) if batch_size % count == 0), 1)


def group_by_size(index: np.ndarray, num_nodes: np.ndarray, buckets: list[int]) -> Draw:
    """Sort every batch of `index` [steps, S, B] by the nodes of its graphs and cut it into groups, small ones first.

    The graphs of a batch stay the same, but small ones are not padded to the size of the largest, which would double
    the work.
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
