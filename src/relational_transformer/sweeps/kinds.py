"""The kinds of runs: what describes one, what trains it and what it costs. Each is imported when a run of it is met."""

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
    """How runs of one kind are read from JSON, trained and judged.

    `train(config, folder, device, checkpoint_seconds=...)` goes on with what is in the folder, and returns the result;
    of a run whose data lie in a folder, it is told which with `data=...`.
    `train_together([(config, folder), ...], device, at_once=..., checkpoint_seconds=...)` does the same
    with several.
    `length(config)` is the number of examples that each seed trains on, and `flop(config)` what the whole run costs.
    """

    read_config: Callable[[dict[str, Any]], Config]
    train: Callable[..., dict[str, Any]]
    length: Callable[[Any], int]
    flop: Callable[[Any], float]
    train_together: Callable[..., list[dict[str, Any]]] | None = None


def _clrs() -> Kind:
    from relational_transformer.training.config import TrainConfig
    from relational_transformer.training.session import train, train_together

    from .costs.clrs import flop

    return Kind(TrainConfig.from_dict, train, lambda config: config.protocol.examples, flop, train_together)


def _lobster() -> Kind:
    from relational_transformer.lobster import LobsterConfig, train

    from .costs.lobster import flop

    return Kind(LobsterConfig.from_dict, train, lambda config: config.protocol.examples, flop)


def _sokoban() -> Kind:
    from relational_transformer.sokoban import SokobanConfig, load_splits, train

    from .costs.sokoban import flop

    def train_on(config: SokobanConfig, folder: str, device: Any, *, data: str | None = None, **rest: Any) -> dict:
        levels = None if data is None else load_splits(data, config.test_levels)
        return train(config, folder, device, levels=levels, **rest)

    return Kind(SokobanConfig.from_dict, train_on, lambda config: config.recipe.steps, flop)


_KINDS: dict[str, Callable[[], Kind]] = {"clrs": _clrs, "lobster": _lobster, "sokoban": _sokoban}


def find_kind(name: str) -> Kind:
    """A kind of runs by its name."""
    if name not in _KINDS:
        raise ValueError(f"no run is of the kind {name!r}; there are {', '.join(_KINDS)}")
    return _KINDS[name]()
