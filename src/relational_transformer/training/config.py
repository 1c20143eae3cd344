"""What a training run is: a task, a model, a protocol and the seeds."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from relational_transformer.bounds import LARGEST_SEED, MOST_SEEDS, check_bound
from relational_transformer.clrs.checks import check_length
from relational_transformer.clrs.spec import SPECS
from relational_transformer.processors.settings import Settings

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
            settings = {**content["settings"], "edge_hidden_sizes": tuple(content["settings"]["edge_hidden_sizes"])}
            parts = {
                **content,
                "settings": Settings(**settings),
                "protocol": Protocol(**content["protocol"]),
                "seeds": tuple(content["seeds"]),
            }
            return TrainConfig(**{field.name: parts[field.name] for field in fields(TrainConfig)})
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is not the configuration of a training run ({error})") from None


def consecutive_seeds(first: int, count: int) -> tuple[int, ...]:
    """So many seeds from the first on; what is too many is refused before they are counted out.

    >>> consecutive_seeds(first=5, count=3)
    (5, 6, 7)
    """
    check_bound("seeds", count, 1, MOST_SEEDS)
    check_bound("first-seed", first, 0, LARGEST_SEED - count + 1)
    return tuple(range(first, first + count))


def check_seeds(seeds: tuple[int, ...]) -> None:
    """Refuse seeds that are none, too many, not all different, or no numbers that torch takes."""
    if not seeds:
        raise ValueError("at least one seed is needed, got none")
    check_bound("number of seeds", len(seeds), 1, MOST_SEEDS)
    if len(set(seeds)) != len(seeds) or min(seeds) < 0 or max(seeds) > LARGEST_SEED:
        raise ValueError(f"seeds must be different numbers from 0 to 2^63 - 1, got {str(list(seeds))[:80]}")
