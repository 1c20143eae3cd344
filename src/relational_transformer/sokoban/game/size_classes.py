"""Games sorted by the size of their levels, so that the small ones are not padded to the largest."""

import math
from dataclasses import dataclass
from itertools import combinations

from torch import Tensor

from .levels import Levels
from .observation import Observation

NODES_BESIDE_FACTORS = 2
"""The core and the memo."""
NODES_AT_ONCE = 8
"""Numbers of nodes are multiples of this, for tensor cores."""


@dataclass(frozen=True)
class SizeClass:
    """Consecutive games of a batch, and the levels that they play.

    Attributes:
        levels: the numbers of the levels, [M].
        first_game, num_games: the range of the games.
        capacity: the number of factors that these levels need.
    """

    levels: Tensor
    first_game: int
    num_games: int
    capacity: int

    @property
    def games(self) -> slice:
        return slice(self.first_game, self.first_game + self.num_games)

    def cut(self, observation: Observation) -> Observation:
        """The observations of these games, out of those [S, B, ...] of all, without factors that none of them needs."""
        return Observation(
            observation.core[:, self.games],
            observation.factors[:, self.games, : self.capacity],
            observation.present[:, self.games, : self.capacity],
        )


def size_classes(levels: Levels, num_games: int, most: int) -> tuple[SizeClass, ...]:
    r"""Sort levels and games into at most `most` classes.

    The B games are cut into classes of $B_c$ games. The levels, sorted by size, are cut at the same shares $B_c / B$,
    so that a class has the same share of the levels as of the games. Of all such cuts, the one with the fewest padded
    pairs of nodes is taken, $\sum_c B_c N_c^2$.

    >>> from relational_transformer.sokoban import generate_levels
    >>> small, large = size_classes(generate_levels(100, seed=0), num_games=10, most=2)
    >>> small.num_games, len(small.levels), small.capacity < large.capacity
    (6, 60, True)
    """
    sizes, order = levels.num_open.sort(stable=True)
    ends = [-(-len(levels) * games // num_games) for games in range(num_games + 1)]
    capacities = {games: node_capacity(int(sizes[ends[games] - 1])) for games in range(1, num_games + 1)}
    # Of the cuts with one capacity of the smaller class, the last is the best: {capacity: games before it}.
    worthwhile = {capacity: games for games, capacity in capacities.items()}
    candidates = sorted(games for games in worthwhile.values() if ends[games] < len(levels))

    def cost(cuts: tuple[int, ...]) -> float:
        bounds = zip((0, *cuts), (*cuts, num_games), strict=True)
        return sum((end - begin) * (capacities[end] + NODES_BESIDE_FACTORS) ** 2 for begin, end in bounds)

    numbers = range(min(most - 1, len(candidates)) + 1)
    best = min((cuts for number in numbers for cuts in combinations(candidates, number)), key=cost)
    return tuple(
        SizeClass(order[ends[begin] : ends[end]].sort().values, begin, end - begin, capacities[end])
        for begin, end in zip((0, *best), (*best, num_games), strict=True)
    )


def node_capacity(open_cells: int) -> int:
    """The number of factors for a level, such that with core and memo the number of nodes is a multiple of eight."""
    factors = open_cells - 1
    return math.ceil((factors + NODES_BESIDE_FACTORS) / NODES_AT_ONCE) * NODES_AT_ONCE - NODES_BESIDE_FACTORS
