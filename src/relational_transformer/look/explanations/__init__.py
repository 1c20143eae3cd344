"""The thirty algorithms in words, for somebody who does not know them."""

from .explanation import Explanation, View
from .graphs import GRAPHS
from .sequences import SEQUENCES
from .structures import STRUCTURES

EXPLANATIONS: dict[str, Explanation] = {**GRAPHS, **SEQUENCES, **STRUCTURES}

__all__ = ["EXPLANATIONS", "Explanation", "View", "words_of"]


def words_of(algorithm: str, feature: str) -> str:
    """What a feature of an algorithm means.

    >>> words_of("dijkstra", "pi") == words_of("dijkstra", "pi_h")
    True
    """
    words = EXPLANATIONS[algorithm].words
    return words[feature] if feature in words else words[f"{feature}_h"]
