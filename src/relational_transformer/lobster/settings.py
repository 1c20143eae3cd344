"""The hyperparameters of the experiment's models and of their training."""

from dataclasses import dataclass
from typing import Literal, get_args

from relational_transformer.bounds import ABOVE_ZERO, LARGEST_FACTOR, check_bounds
from relational_transformer.nn.checks import LARGEST_SIZE, MOST_LAYERS
from relational_transformer.processors.settings import LARGEST_BATCH, LARGEST_LEARNING_RATE

ModelName = Literal["rt", "gcn", "gat"]
Attention = Literal["all", "edges"]


@dataclass(frozen=True)
class TrainingSettings:
    """The settings of all models: the training of IterGNN (Tang et al., 2020), whose experiment this is."""

    num_layers: int = 30
    """The number of layers, each with parameters of its own."""
    learning_rate: float = 1e-3
    batch_size: int = 32
    adam_epsilon: float = 1e-5
    gradient_clip: float | None = None
    """The norm to which the gradient of a seed is clipped."""

    def __post_init__(self) -> None:
        sizes = [name for name, value in vars(self).items() if name not in BOUNDS and isinstance(value, int)]
        check_bounds(self, BOUNDS | dict.fromkeys(sizes, (1, LARGEST_SIZE)))


BOUNDS = {
    "num_layers": (1, MOST_LAYERS),
    "batch_size": (1, LARGEST_BATCH),
    "learning_rate": (ABOVE_ZERO, LARGEST_LEARNING_RATE),
    "adam_epsilon": (ABOVE_ZERO, LARGEST_FACTOR),
    "gradient_clip": (ABOVE_ZERO, LARGEST_FACTOR),
}
"""The smallest and the largest valid value of each field. All other numbers are sizes."""


@dataclass(frozen=True)
class RelationalSettings(TrainingSettings):
    """The Relational Transformer, by the paper's table of lobster hyperparameters.

    >>> RelationalSettings().node_size
    224
    """

    learning_rate: float = 6.3e-5
    gradient_clip: float | None = 128.0
    num_heads: int = 8
    head_size: int = 28
    """Heads times head size is the size of nodes, d_n."""
    node_hidden_size: int = 12
    edge_size: int = 128
    edge_hidden_sizes: tuple[int, int] = (32, 8)
    output_size: int = 180
    """Width of the layer between the pooled nodes and the prediction."""
    attention: Attention = "all"
    """Whom a node attends to: all nodes, or along the edges of the graph, and to itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.attention not in get_args(Attention):
            raise ValueError(f"attention must be one of {', '.join(get_args(Attention))}, got {self.attention!r}")

    @property
    def node_size(self) -> int:
        return self.num_heads * self.head_size


@dataclass(frozen=True)
class BaselineSettings(TrainingSettings):
    """IterGNN's GCN and GAT.

    >>> BaselineSettings().learning_rate
    0.001
    """

    embedding_hidden_size: int = 33
    hidden_size: int = 64


Settings = RelationalSettings | BaselineSettings

SETTINGS: dict[ModelName, Settings] = {
    "rt": RelationalSettings(),
    "gcn": BaselineSettings(),
    "gat": BaselineSettings(),
}
