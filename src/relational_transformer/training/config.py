"""What a training run is: a task, a model, a protocol with every number of the paper's, and the seeds."""

from dataclasses import dataclass
from typing import Any

from relational_transformer.bounds import LARGEST_COUNT, check_bounds
from relational_transformer.clrs.checks import LARGEST_LENGTH, LARGEST_SEED, check_length
from relational_transformer.clrs.spec import SPECS
from relational_transformer.fleet.adam import CONSTANT, Schedule
from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.fleet import check_seeds
from relational_transformer.fleet.precision import Precision
from relational_transformer.processors.settings import Settings
from relational_transformer.reading import make
from relational_transformer.runs.task import config_as_dict


@dataclass(frozen=True)
class Protocol:
    """What is trained on, for how long, and how the model that is tested is chosen (the paper's appendix on its
    train/test protocol).

    >>> PROTOCOLS["paper"].examples, PROTOCOLS["paper"].train_nodes, PROTOCOLS["paper"].test_nodes
    (320000, 16, 64)
    """

    train_examples: int = 10_000
    """Size of the training set."""
    train_nodes: int = 16
    """Nodes of the training graphs."""
    train_data_seed: int = 1
    """Seed of the training graphs."""
    validation_nodes: int = 16
    """Nodes of the validation graphs."""
    validation_data_seed: int = 2
    """Seed of the validation graphs."""
    test_nodes: int = 64
    """Nodes of the test graphs."""
    test_data_seed: int = 3
    """Seed of the test graphs."""
    evaluation_examples: int = 32
    """Examples of the validation and of the test set, times the algorithm's canonical multiplier (1, 32 or 64)."""
    minimum_evaluation_examples: int = 0
    """Evaluation sets have at least so many examples (the paper's tuning: 100)."""
    examples: int = 320_000
    """Examples that each seed trains on, drawn with replacement."""
    validation_interval: int = 320
    """A validation after so many examples. The first of the best validation scores is tested."""
    teacher_forcing: float = 0.5
    """Probability with which a step sees the true hints instead of the model's own, per example."""

    def __post_init__(self) -> None:
        check_bounds(self, BOUNDS)


BOUNDS = {
    **dict.fromkeys(("train_examples", "evaluation_examples", "examples", "validation_interval"), (1, LARGEST_COUNT)),
    **dict.fromkeys(("train_nodes", "validation_nodes", "test_nodes"), (1, LARGEST_LENGTH)),
    **dict.fromkeys(("train_data_seed", "validation_data_seed", "test_data_seed"), (0, LARGEST_SEED)),
    "minimum_evaluation_examples": (0, LARGEST_COUNT),
    "teacher_forcing": (0.0, 1.0),
}
"""The least and the most that each may be."""


PROTOCOLS: dict[str, Protocol] = {
    "paper": Protocol(),
    "quick": Protocol(train_examples=1_000, examples=4_000, validation_interval=400),
}
"""`paper` is the default; `quick` ends within minutes on a laptop and proves little."""


@dataclass(frozen=True)
class TrainConfig:
    """One fleet: `seeds` of one model trained on one task. All that changes its numbers is here, but for
    the device and the kernels' switch, which the result names.

    >>> from relational_transformer.processors import TUNED
    >>> config = TrainConfig("bfs", "rt", TUNED["rt"], Protocol(), seeds=(0, 1))
    >>> TrainConfig.from_dict(config.as_dict()) == config
    True
    """

    task: str
    model: str
    settings: Settings
    protocol: Protocol
    seeds: tuple[int, ...]
    precision: Precision = "tf32"
    compile: CompileMode = "auto"
    schedule: Schedule = CONSTANT

    def __post_init__(self) -> None:
        if self.task not in SPECS:
            raise ValueError(f"no task is called {self.task!r}; there are {', '.join(SPECS)}")
        check_seeds(self.seeds)
        for nodes in {self.protocol.train_nodes, self.protocol.validation_nodes, self.protocol.test_nodes}:
            check_length(self.task, nodes, "1.0")  # before a run is trained whose test cannot be made

    def as_dict(self) -> dict[str, Any]:
        content = config_as_dict(self)
        if content["settings"]["gradient_clip"] is None:  # as before there was such a setting: a run is known by this
            del content["settings"]["gradient_clip"]
        return content

    @staticmethod
    def from_dict(content: dict[str, Any]) -> "TrainConfig":
        """A configuration as `as_dict` gave it, after a trip through JSON."""
        try:
            return make(content, TrainConfig)
        except ValueError as error:
            raise ValueError(f"this is not the configuration of a training run ({error})") from None
