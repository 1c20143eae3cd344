"""What a run on QM9 is: a target, the model's sizes and training, a protocol and the seeds."""

from dataclasses import dataclass
from typing import Literal

from relational_transformer.bounds import ABOVE_ZERO, LARGEST_COUNT, LARGEST_FACTOR, LARGEST_SEED, check_bounds
from relational_transformer.fleet.adam import CONSTANT, Schedule
from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.precision import Precision
from relational_transformer.nn.checks import LARGEST_SIZE, MOST_LAYERS
from relational_transformer.regression.task import RegressionConfig

from .targets import Target, find_target

PREFIX = "qm9_"
"""The prefix of a task's name; the rest is the target."""
MOST_MOLECULES = 10**7
LARGEST_BATCH = 10**5
WARMUP = Schedule(warmup_steps=1_000, decay="cosine")
"""The default schedule of the learning rate in `rt train qm9` and in sweeps."""


@dataclass(frozen=True)
class MoleculeSettings:
    """The model and its training.

    >>> MoleculeSettings(num_heads=4, head_size=16).node_size
    64
    """

    num_layers: int = 8
    """Layers of the model."""
    num_heads: int = 8
    """Attention heads."""
    head_size: int = 24
    """Size of a head. Heads times head size is the size of node vectors."""
    node_hidden_size: int = 384
    """Hidden size of the nodes' feed-forward network."""
    edge_size: int = 96
    """Size of edge vectors."""
    edge_hidden_sizes: tuple[int, int] = (96, 96)
    """Hidden sizes of the two networks of the edge update."""
    distance_size: int = 64
    """The number of radial basis functions that encode a distance."""
    longest_distance: float = 10.0
    """The centre of the last of them, in ångström."""
    learning_rate: float = 5e-4
    """Adam's learning rate."""
    batch_size: int = 128
    """Molecules in a batch of one seed."""
    gradient_clip: float | None = 1.0
    """The norm to which the gradient of each seed is clipped."""

    def __post_init__(self) -> None:
        sizes = [name for name, value in vars(self).items() if name not in BOUNDS and isinstance(value, int)]
        check_bounds(self, BOUNDS | dict.fromkeys(sizes, (1, LARGEST_SIZE)))

    @property
    def node_size(self) -> int:
        return self.num_heads * self.head_size


BOUNDS = {
    "num_layers": (1, MOST_LAYERS),
    "distance_size": (2, LARGEST_SIZE),
    "longest_distance": (ABOVE_ZERO, LARGEST_FACTOR),
    "batch_size": (1, LARGEST_BATCH),
    "learning_rate": (ABOVE_ZERO, 10.0),
    "gradient_clip": (ABOVE_ZERO, LARGEST_FACTOR),
}
"""The least and the most that each may be; all other numbers are sizes."""


@dataclass(frozen=True)
class QM9Protocol:
    """The usual split, drawn at random, and how long a seed trains.

    >>> QM9Protocol().examples // QM9Protocol().train_molecules
    200
    """

    train_molecules: int = 110_000
    validation_molecules: int = 10_000
    test_molecules: int | None = None
    """The number of test molecules; None for all others, 10,831 of the whole data set."""
    split_seed: int = 0
    examples: int = 200 * train_molecules
    """Molecules that each seed trains on: the training set 200 times."""
    validation_interval: int = train_molecules
    """Molecules between two validations. The parameters with the best validation score are tested."""

    def __post_init__(self) -> None:
        check_bounds(self, PROTOCOL_BOUNDS)


PROTOCOL_BOUNDS = {
    "train_molecules": (2, MOST_MOLECULES),
    "validation_molecules": (1, MOST_MOLECULES),
    "test_molecules": (1, MOST_MOLECULES),
    "split_seed": (0, LARGEST_SEED),
    "examples": (1, LARGEST_COUNT),
    "validation_interval": (1, LARGEST_COUNT),
}
"""The least and the most that each may be."""


@dataclass(frozen=True)
class QM9Config(RegressionConfig):
    """One fleet: `seeds` of the model on one target, all on the same split. Besides these fields only the device and
    the kernels' switch change the numbers of a run; the result names both.

    >>> config = QM9Config("qm9_gap", MoleculeSettings(), QM9Protocol(), seeds=(0, 1))
    >>> QM9Config.from_dict(config.as_dict()) == config, config.target.unit
    (True, 'meV')
    """

    called = "a run on QM9"

    task: str
    settings: MoleculeSettings
    protocol: QM9Protocol
    seeds: tuple[int, ...]
    precision: Precision = "tf32"
    compile: CompileMode = "auto"
    schedule: Schedule = CONSTANT
    model: Literal["rt"] = "rt"

    def __post_init__(self) -> None:
        find_target(self.name)
        if self.model != "rt":
            raise ValueError(f"model must be rt, got {self.model!r}")
        super().__post_init__()

    @property
    def name(self) -> str:
        """Of the target."""
        return self.task.removeprefix(PREFIX)

    @property
    def target(self) -> Target:
        return find_target(self.name)
