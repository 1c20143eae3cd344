"""The winner of a search, to be trained again: its scores in the search are biased, because they selected it."""

from collections.abc import Iterable

from relational_transformer.training import Protocol, TrainConfig

from .analysis import Search
from .grids import settings_of


def winner_configs(
    search: Search, model: str, tasks: Iterable[str], protocol: Protocol, seeds: tuple[int, ...]
) -> list[TrainConfig]:
    """The configurations to train for unbiased results of the best configuration, one for each task."""
    if search.best is None:
        raise ValueError("no run of this search has ended yet, so it has no winner")
    settings = settings_of(model, search.configuration(search.best))
    return [TrainConfig(task, model, settings, protocol, seeds) for task in tasks]
