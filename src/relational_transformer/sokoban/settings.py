"""The sizes of the agent, and the recipes of its training."""

import math
from dataclasses import dataclass, replace

from relational_transformer.bounds import ABOVE_ZERO, LARGEST_COUNT, LARGEST_FACTOR, check_bound, check_bounds
from relational_transformer.nn.checks import MOST_LAYERS, check_size, check_sizes
from relational_transformer.processors.settings import LARGEST_LEARNING_RATE


@dataclass(frozen=True)
class AgentSettings:
    """The agent's sizes: those that WMG published, and the edge sizes that the RT paper tuned for Sokoban (d_e, d_eh1,
    d_eh2).

    >>> AgentSettings().edge_size, AgentSettings(num_layers=2).num_layers
    (128, 2)
    """

    size: int = 256
    """Size of node vectors."""
    num_layers: int = 10
    """Layers of the agent."""
    num_heads: int = 8
    """Attention heads."""
    node_hidden_size: int = 8
    """Hidden size of the nodes' feed-forward network."""
    memo_size: int = 2048
    """Size of the memo that a step passes to the next."""
    decision_size: int = 2880
    """Hidden size of policy and value."""
    edge_size: int = 128
    """RT: size of edge vectors."""
    edge_hidden_sizes: tuple[int, int] = (64, 12)
    """RT: hidden sizes of the two networks of the edge update."""

    def __post_init__(self) -> None:
        sizes = {name: value for name, value in vars(self).items() if name != "edge_hidden_sizes"}
        check_size(MOST_LAYERS, num_layers=sizes.pop("num_layers"))
        check_size(**sizes)
        check_sizes("edge_hidden_sizes", self.edge_hidden_sizes, "d_eh1, d_eh2")
        if self.size % self.num_heads:
            raise ValueError(f"num_heads must divide size={self.size}, got num_heads={self.num_heads}")


@dataclass(frozen=True)
class Recipe:
    """The training of an agent: actor-critic on windows of a few steps of several games. When a game ends, its return
    and memo end, and the window continues with the next game. (WMG ends the window there and updates.)

    >>> RECIPES["original"].num_games, RECIPES["original"].window
    (1, 4)
    """

    num_games: int = 1
    """Games played at once by each seed."""
    window: int = 4
    """Steps of each game between two updates."""
    size_classes: int = 1
    """The largest number of classes into which games and levels are sorted by size. A game plays only levels of its
    class, which has the same share of the levels as of the games. So small levels are not padded to the largest."""
    learning_rate: float = 1.6e-5
    """Adam's learning rate, constant."""
    adam_epsilon: float = 1e-10
    discount: float = 0.995
    reward_scale: float = 4.0
    value_weight: float = 0.5
    entropy_weight: float = 0.02
    gradient_clip: float = 512.0
    """The norm to which the gradient of a seed is clipped."""
    steps: int = 10_000_000
    """Steps in all games of a seed together."""
    report_interval: int = 100_000
    """Steps between two reports of the share of solved levels. The parameters after the best interval are tested. A
    shorter last interval is left out, unless it is the only one."""

    def __post_init__(self) -> None:
        check_bounds(self, BOUNDS)

    def with_games(self, num_games: int) -> "Recipe":
        r"""The recipe for another number of games. The learning rate grows with the square root of their number.

        Adam divides by the root mean square of the gradient. Where the gradient is mostly noise, as here, it falls as
        $1 / \sqrt{B}$ with the games that are averaged over, and an update goes $\sqrt{B}$ times as far along the mean
        gradient; with a rate $\sqrt{B}$ times as large, B times as far, like the B updates of one game in its place.

        >>> Recipe().with_games(16).learning_rate
        6.4e-05
        """
        check_bound("games", num_games, *BOUNDS["num_games"])
        rate = self.learning_rate * math.sqrt(num_games / self.num_games)
        return replace(self, num_games=num_games, learning_rate=float(f"{rate:.3g}"))

    @property
    def steps_of_update(self) -> int:
        return self.num_games * self.window

    @property
    def updates_of_part(self) -> int:
        """Updates between two reports."""
        return max(1, self.report_interval // self.steps_of_update)

    @property
    def num_updates(self) -> int:
        return -(-self.steps // self.steps_of_update)


MOST_GAMES = 2**16
LONGEST_WINDOW = 10_000
BOUNDS = {
    **dict.fromkeys(("num_games", "size_classes"), (1, MOST_GAMES)),
    "window": (1, LONGEST_WINDOW),
    **dict.fromkeys(("steps", "report_interval"), (1, LARGEST_COUNT)),
    "learning_rate": (ABOVE_ZERO, LARGEST_LEARNING_RATE),
    "discount": (ABOVE_ZERO, 1.0),
    **dict.fromkeys(("adam_epsilon", "reward_scale", "gradient_clip"), (ABOVE_ZERO, LARGEST_FACTOR)),
    **dict.fromkeys(("value_weight", "entropy_weight"), (0.0, LARGEST_FACTOR)),
}
"""The smallest and the largest valid value of each field."""

RECIPES = {
    # WMG's numbers, without its shorter windows at the ends of games.
    "original": Recipe(),
    "batched": replace(Recipe().with_games(64), size_classes=2),
}
