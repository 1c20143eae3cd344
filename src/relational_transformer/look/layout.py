"""Where the nodes of a graph are drawn."""

import numpy as np

CROWDED = 2.5
"""Edges a node from which on a ring is clearer than anything else: no pointer then runs through a third node."""

ROUNDS = 200

ROW = 16
"""The nodes without an edge that stand in a row."""

ROOM = 0.6
"""The least distance between nodes, in sides of the square that each node has if all have one as large."""


def place_nodes(adjacent: np.ndarray) -> np.ndarray:
    """Places in the unit square, [N, 2], of a graph's nodes; adjacent is bool [N, N].

    A crowded graph is a ring. Others are laid out by stress majorization (Gansner et al., 2004): distances on paper
    like those along the edges. The first node with an edge is on the left and not below the middle of those that have
    one; nodes without an edge stand in rows below.

    >>> place_nodes(np.eye(5, k=1, dtype=bool))[:, 0].round(1).tolist()  # a path
    [0.0, 0.2, 0.5, 0.8, 1.0]
    """
    size = len(adjacent)
    joined = (adjacent | adjacent.T) & ~np.eye(size, dtype=bool)
    angles = np.arange(size) * (2 * np.pi / size)
    ring = np.stack([np.sin(angles), -np.cos(angles)], axis=1)
    if joined.sum() / 2 > CROWDED * size or size < 3:
        return (ring + 1) / 2
    lonely = ~joined.any(1)
    if lonely.all() or not lonely.any():
        return _part(_fit(_majorize(ring, _distances(joined))))
    places = np.empty_like(ring)
    row, seat = np.divmod(np.arange(lonely.sum()), ROW)
    places[lonely] = np.stack([(seat + 0.5) / min(ROW, lonely.sum()), 1 - 0.1 * row], axis=1)
    places[~lonely] = place_nodes(joined[np.ix_(~lonely, ~lonely)]) * [1, 0.8 - 0.1 * row[-1]]
    return places


def _distances(joined: np.ndarray) -> np.ndarray:
    """Steps along edges; a little more than the longest between nodes that no path joins."""
    size = len(joined)
    distances = np.where(joined, 1.0, np.inf)
    np.fill_diagonal(distances, 0.0)
    for k in range(size):
        distances = np.minimum(distances, distances[:, k, None] + distances[None, k])
    reached = np.isfinite(distances)
    return np.where(reached, distances, min(distances[reached].max(), 3.0) + 1.0)


def _majorize(places: np.ndarray, distances: np.ndarray) -> np.ndarray:
    size = len(places)
    others = ~np.eye(size, dtype=bool)
    weights = np.where(others, 1 / np.where(others, distances, 1.0) ** 2, 0.0)
    places = places * distances.max() / 2
    for _ in range(ROUNDS):
        gaps = places[:, None] - places[None]  # [N, N, 2]
        apart = np.maximum(np.linalg.norm(gaps, axis=-1), 1e-6)
        wanted = places[None] + gaps * (distances / apart)[..., None]
        places = (weights[..., None] * wanted).sum(1) / weights.sum(1, keepdims=True)
    return places


def _fit(places: np.ndarray) -> np.ndarray:
    """Turned so that the longer side lies across, with node 0 on the left and not below the middle, and scaled to the
    unit square."""
    centred = places - places.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned = centred @ axes.T
    turned = np.where(turned[0] > 0, -turned, turned)
    low, high = turned.min(0), turned.max(0)
    return (turned - low) / np.maximum(high - low, 1e-6)


def _part(places: np.ndarray) -> np.ndarray:
    """Nodes that are too close to each other are pushed apart, inside the unit square."""
    size = len(places)
    least = ROOM / np.sqrt(size)
    for _ in range(ROUNDS):
        gaps = places[:, None] - places[None]  # [N, N, 2]
        apart = np.maximum(np.linalg.norm(gaps, axis=-1), 1e-6) + 2 * least * np.eye(size)
        push = np.maximum(least - apart, 0) / 2
        if not push.any():
            break
        places = np.clip(places + (gaps * (push / apart)[..., None]).sum(1), 0, 1)
    return places
