"""The models of the experiment and how each is trained: every hyperparameter, written here once."""

from dataclasses import dataclass
from typing import Literal

ModelName = Literal["rt", "gcn", "gat"]


@dataclass(frozen=True)
class TrainingSettings:
    """What is set for all models alike: the training of IterGNN (Tang et al., 2020), whose experiment this is."""

    num_layers: int = 30
    """Layers, none of them shared."""
    learning_rate: float = 1e-3
    batch_size: int = 32
    adam_epsilon: float = 1e-5
    gradient_clip: float | None = None
    """The norm that a seed's gradient is cut down to."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int) and value < 1:
                raise ValueError(f"{name.replace('_', '-')} must be at least 1, got {value}")
        for name in ("learning_rate", "adam_epsilon", "gradient_clip"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"{name.replace('_', '-')} must be a number above 0, got {value}")


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

    @property
    def node_size(self) -> int:
        return self.num_heads * self.head_size


@dataclass(frozen=True)
class BaselineSettings(TrainingSettings):
    """GCN and GAT as IterGNN has them.

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
