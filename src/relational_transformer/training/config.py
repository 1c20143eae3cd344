"""What a training run is: a task, a model, a protocol and the seeds."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from relational_transformer.clrs.checks import check_length
from relational_transformer.clrs.spec import SPECS
from relational_transformer.processors.settings import Settings
from relational_transformer.reading import make

from .precision import Precision
from .protocol import Protocol

CompileMode = Literal["auto", "on", "off"]


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

    def __post_init__(self) -> None:
        if self.task not in SPECS:
            raise ValueError(f"no task is called {self.task!r}; there are {', '.join(SPECS)}")
        check_seeds(self.seeds)
        for nodes in {self.protocol.train_nodes, self.protocol.validation_nodes, self.protocol.test_nodes}:
            check_length(self.task, nodes, "1.0")  # before a run is trained whose test cannot be made

    def as_dict(self) -> dict[str, Any]:
        content = asdict(self)
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


def check_seeds(seeds: tuple[int, ...]) -> None:
    """Refuse seeds that are none, not all different, or no numbers that torch takes."""
    if not seeds:
        raise ValueError("at least one seed is needed, got none")
    if len(set(seeds)) != len(seeds) or min(seeds) < 0 or max(seeds) >= 2**63:
        raise ValueError(f"seeds must be different numbers from 0 to 2^63 - 1, got {list(seeds)}")
