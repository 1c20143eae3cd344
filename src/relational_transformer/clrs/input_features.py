"""Input features: what a model sees of the drawn inputs.

Each function takes the drawn arrays of a batch and gives the features by name, in the order of the specs.
"""

import numpy as np

from relational_transformer.clrs.algorithm import Drawn

CHARACTERS = 4

Features = dict[str, np.ndarray]


def positions(count: int, size: int) -> np.ndarray:
    """k / size for the nodes of a sequence, the same for every example: [count, size]."""
    return np.broadcast_to(np.arange(size) / size, (count, size))


def keys(drawn: Drawn) -> Features:
    """A key a node."""
    (key,) = drawn
    return {"pos": positions(*key.shape), "key": key}


def dimensions(drawn: Drawn) -> Features:
    """The sizes of a chain of matrices: matrix k is p[k - 1] by p[k]."""
    (sizes,) = drawn
    return {"pos": positions(*sizes.shape), "p": sizes}


def keys_and_target(drawn: Drawn) -> Features:
    """A key a node, and one to look for."""
    key, target = drawn
    return {"pos": positions(*key.shape), "key": key, "target": target}


def probabilities(drawn: Drawn) -> Features:
    """The chance p of every key and q of every gap between keys; there is one more gap, so the last p is 0."""
    key_chances, gap_chances = drawn
    padded = np.zeros_like(gap_chances)
    padded[:, :-1] = key_chances
    return {"pos": positions(*gap_chances.shape), "p": padded, "q": gap_chances}


def intervals(drawn: Drawn) -> Features:
    """Start and finish of every activity."""
    start, finish = drawn
    return {"pos": positions(*start.shape), "s": start, "f": finish}


def tasks(drawn: Drawn) -> Features:
    """Deadline and worth of every task."""
    deadline, worth = drawn
    return {"pos": positions(*worth.shape), "d": deadline, "w": worth}


def points(drawn: Drawn) -> Features:
    """Coordinates in the plane."""
    x, y = drawn
    return {"pos": positions(*x.shape), "x": x, "y": y}


def graph(drawn: Drawn) -> Features:
    """Edge weights, and whether there is an edge; every node counts as its own neighbour."""
    weights = drawn[0]
    count, size, _ = weights.shape
    return {"pos": positions(count, size), "A": weights, "adj": (weights != 0) | np.eye(size, dtype=bool)}


def graph_and_source(drawn: Drawn) -> Features:
    """A graph, and the node to start from."""
    weights, source = drawn
    features = graph(drawn)
    start = source[:, None] == np.arange(weights.shape[1])
    return {"pos": features["pos"], "s": start, "A": features["A"], "adj": features["adj"]}


def two_strings(drawn: Drawn) -> Features:
    """Which string a character belongs to (0 first, 1 second), where it stands in it, and which character it is."""
    characters, second_size = drawn
    place, first_size = np.arange(characters.shape[1]), characters.shape[1] - second_size[:, None]
    string = place >= first_size
    return {
        "string": string,
        "pos": np.where(string, (place - first_size) / second_size[:, None], place / first_size),
        "key": characters[:, :, None] == np.arange(CHARACTERS),
    }
