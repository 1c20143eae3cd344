"""Shortest paths in lobster graphs, many at once."""

import numpy as np


def distances_of(
    parents: np.ndarray, up: np.ndarray, down: np.ndarray, sizes: np.ndarray, sources: np.ndarray, targets: np.ndarray
) -> np.ndarray:
    """The lengths [M] of the paths from `sources` to `targets`, in trees given as in `Lobsters`.

    The path climbs from the source to the spine, goes along it and descends to the target. If both hang on the same
    leaf of the spine, the path turns round there, so the way from that leaf to the spine and back is subtracted.
    """
    graph = np.arange(len(sizes))
    start, climb, start_leaf = _to_spine(parents, up, sizes, sources)
    end, descend, end_leaf = _to_spine(parents, down, sizes, targets)
    on_spine = (np.arange(1, parents.shape[1] + 1) <= sizes[:, None]) & (parents >= 0)
    forward = np.cumsum(np.where(on_spine, down, 0.0), axis=1)  # [M, W]: from spine node 0 to each spine node
    backward = np.cumsum(np.where(on_spine, up, 0.0), axis=1)  # and back
    along = np.where(
        end >= start, forward[graph, end] - forward[graph, start], backward[graph, start] - backward[graph, end]
    )
    turns_early = (start_leaf == end_leaf) & (start_leaf >= 0)
    detour = up[graph, start_leaf] + down[graph, end_leaf]
    return climb + along + descend - np.where(turns_early, detour, 0.0)


def _to_spine(
    parents: np.ndarray, weights: np.ndarray, sizes: np.ndarray, nodes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For one node of each graph: its spine node, the weights on the way there, and the leaf it hangs on (-1 on the
    spine)."""
    graph = np.arange(len(sizes))
    total, leaf = np.zeros(len(sizes)), np.full(len(sizes), -1)
    for _ in range(2):
        hangs = nodes >= sizes
        total += np.where(hangs, weights[graph, nodes], 0.0)
        leaf = np.where(hangs, nodes, leaf)
        nodes = np.where(hangs, parents[graph, nodes], nodes)
    return nodes, total, leaf
