"""The protocol: the graphs, the length of training, and the choice of the parameters that are tested."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from relational_transformer.bounds import LARGEST_COUNT, check_bounds
from relational_transformer.clrs.checks import LARGEST_SEED

from .graphs import Lobsters, sample, spread_sizes

EPOCHS = 200
"""Passes of a seed over the training set."""
VALIDATIONS = 10
"""The number of validations of a run of any length."""


@dataclass(frozen=True)
class LobsterProtocol:
    """IterGNN's protocol. The size of a graph is the length of its spine; it has about a quarter more nodes.

    >>> len(LobsterProtocol(train_examples=60).train_graphs())
    60
    """

    weighted: bool = False
    """Random edge lengths instead of 1."""
    train_examples: int = 10_000
    """The number of training graphs."""
    smallest_size: int = 4
    end_size: int = 34
    """Training sizes are spread evenly over [smallest_size, end_size)."""
    train_data_seed: int = 1
    validation_data_seed: int = 2
    test_data_seed: int = 3
    test_size: int = 100
    """The size of test and validation graphs."""
    evaluation_examples: int = 1_000
    """The number of graphs of the validation, of the test, and of a second test on training sizes."""
    examples: int = EPOCHS * train_examples
    """Graphs that each seed trains on: 200 epochs of 10,000."""
    validation_interval: int = examples // VALIDATIONS
    """Graphs between two validations. The parameters with the best validation score are tested."""

    def __post_init__(self) -> None:
        check_bounds(self, BOUNDS)
        if self.end_size <= self.smallest_size:
            raise ValueError(f"training sizes end at {self.end_size}, which must be above {self.smallest_size}")

    @staticmethod
    def like_the_papers(**given: Any) -> "LobsterProtocol":
        """A protocol with these values. By default it has 200 epochs of the training set, and ten validations.

        >>> protocol = LobsterProtocol.like_the_papers(train_examples=500)
        >>> protocol.examples, protocol.validation_interval
        (100000, 10000)
        """
        examples = given.get("examples", EPOCHS * given.get("train_examples", LobsterProtocol.train_examples))
        return LobsterProtocol(
            **{"examples": examples, "validation_interval": max(1, examples // VALIDATIONS), **given}
        )

    def train_graphs(self) -> Lobsters:
        sizes = spread_sizes(self.train_examples, self.smallest_size, self.end_size)
        return sample(sizes, self.train_data_seed, self.weighted)

    def validation_graphs(self) -> Lobsters:
        return self._large_graphs(self.validation_data_seed)

    def test_graphs(self) -> Lobsters:
        return self._large_graphs(self.test_data_seed)

    def test_graphs_of_training_sizes(self) -> Lobsters:
        sizes = spread_sizes(self.evaluation_examples, self.smallest_size, self.end_size)
        return sample(sizes, self.test_data_seed, self.weighted)

    def _large_graphs(self, seed: int) -> Lobsters:
        return sample(np.full(self.evaluation_examples, self.test_size), seed, self.weighted)


MOST_GRAPHS = 10**7
LARGEST_SIZE = 10_000
"""Memory grows with its square: models have a vector for every pair of nodes."""
BOUNDS = {
    **dict.fromkeys(("train_examples", "evaluation_examples"), (1, MOST_GRAPHS)),
    **dict.fromkeys(("examples", "validation_interval"), (1, LARGEST_COUNT)),
    **dict.fromkeys(("smallest_size", "end_size", "test_size"), (2, LARGEST_SIZE)),
    **dict.fromkeys(("train_data_seed", "validation_data_seed", "test_data_seed"), (0, LARGEST_SEED)),
}
"""The smallest and the largest valid value of each field."""
