"""The kinds of runs: what describes one, and what trains it. Each is imported when a run of it is met."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol


class Config(Protocol):
    """What the configuration of every run has, whatever it trains; a frozen dataclass."""

    @property
    def task(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def seeds(self) -> tuple[int, ...]: ...

    def as_dict(self) -> dict[str, Any]: ...


class Kind(NamedTuple):
    """How runs of one kind are read from JSON and trained.

    `train(config, folder, device, checkpoint_seconds=...)` goes on with what is in the folder, and returns the result.
    """

    read_config: Callable[[dict[str, Any]], Config]
    train: Callable[..., dict[str, Any]]


def _clrs() -> Kind:
    from relational_transformer.training.config import TrainConfig
    from relational_transformer.training.session import train

    return Kind(TrainConfig.from_dict, train)


_KINDS: dict[str, Callable[[], Kind]] = {"clrs": _clrs}


def find_kind(name: str) -> Kind:
    """A kind of runs by its name."""
    if name not in _KINDS:
        raise ValueError(f"no run is of the kind {name!r}; there are {', '.join(_KINDS)}")
    return _KINDS[name]()
