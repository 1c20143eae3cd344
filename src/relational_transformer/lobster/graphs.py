"""Lobster graphs with a source and a target: trees whose nodes are at most two steps from a path, the spine."""

from dataclasses import dataclass

import numpy as np

from .distances import distances_of

LEAF_PROBABILITY = 0.2
LIGHTEST, HEAVIEST = 0.5, 1.5


@dataclass(frozen=True)
class Lobsters:
    """M lobster graphs, padded to the W nodes of the largest. A tree is the list of its nodes' parents.

    Attributes:
        parents: the parent of every node, [M, W]; -1 for the root, which is spine node 0, and for absent nodes.
        up, down: the weight of the edge from a node to its parent, and of the reverse edge, [M, W].
        num_nodes: the number of nodes, [M].
        sources, targets: two different nodes of each graph, [M].
        distances: the length of the shortest path from source to target, [M].

    >>> sample(np.array([3]), seed=5).parents.tolist()  # a spine of three, a leaf on its first node, a leaf on that
    [[-1, 0, 1, 0, 3]]
    """

    parents: np.ndarray
    up: np.ndarray
    down: np.ndarray
    num_nodes: np.ndarray
    sources: np.ndarray
    targets: np.ndarray
    distances: np.ndarray

    def __len__(self) -> int:
        return len(self.num_nodes)


def spread_sizes(count: int, smallest: int, end: int) -> np.ndarray:
    """Spine lengths of `count` graphs, spread evenly over [smallest, end), in order.

    >>> spread_sizes(6, 4, 7).tolist()
    [4, 4, 5, 5, 6, 6]
    """
    return smallest + np.arange(count) * (end - smallest) // count


def sample(sizes: np.ndarray, seed: int, weighted: bool = False) -> Lobsters:
    """A lobster graph for each spine length in `sizes`. The same sizes and seed give the same graphs.

    A spine of n nodes gets a ~ Binomial(n, 0.2) leaves, each on a uniform spine node, and these b ~ Binomial(a, 0.2)
    leaves of their own, each on a uniform one of them. Every edge has length 1, or U[0.5, 1.5) for each direction if
    `weighted`.

    >>> lobsters = sample(np.array([5, 100]), seed=1)
    >>> lobsters.num_nodes.tolist(), lobsters.distances.tolist()
    ([5, 114], [1.0, 10.0])
    """
    sizes = np.asarray(sizes, dtype=np.int64)
    if len(sizes) < 1 or sizes.min() < 2:
        raise ValueError(f"lobster graphs need a spine of at least 2 nodes, got {sizes.tolist()}")
    generator = np.random.Generator(np.random.Philox(seed))
    leaves = generator.binomial(sizes, LEAF_PROBABILITY)
    second_leaves = generator.binomial(leaves, LEAF_PROBABILITY)
    num_nodes = sizes + leaves + second_leaves
    node = np.arange(num_nodes.max())  # [W]; of each graph the spine comes first, then leaves, then their leaves
    shape = (len(sizes), len(node))
    spine, first = sizes[:, None], leaves[:, None]
    on_spine = generator.integers(0, spine, size=shape)
    on_leaf = spine + generator.integers(0, np.maximum(first, 1), size=shape)
    parents = np.where(node < spine, node - 1, np.where(node < spine + first, on_spine, on_leaf))
    parents = np.where(node < num_nodes[:, None], parents, -1)
    sources = generator.integers(0, num_nodes)
    targets = generator.integers(0, num_nodes - 1)
    targets += targets >= sources  # uniform among the others
    if weighted:
        up, down = (generator.uniform(LIGHTEST, HEAVIEST, size=shape) for _ in range(2))
    else:
        up, down = np.ones(shape), np.ones(shape)
    distances = distances_of(parents, up, down, sizes, sources, targets)
    up, down = up.astype(np.float32), down.astype(np.float32)
    return Lobsters(parents, up, down, num_nodes, sources, targets, distances)
