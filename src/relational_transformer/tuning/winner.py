"""The winner of a search, to be trained afresh: its runs in the search were chosen for their luck as well."""

from collections.abc import Iterable

from relational_transformer.training import Protocol, TrainConfig

from .analysis import Search
from .grids import settings_of


def winner_configs(
    search: Search, model: str, tasks: Iterable[str], protocol: Protocol, seeds: tuple[int, ...]
) -> list[TrainConfig]:
    """What to train for results of the best configuration that are free of selection bias, a task at a time."""
    if search.best is None:
        raise ValueError("no run of this search has ended yet, so that it has no winner")
    settings = settings_of(model, search.configuration(search.best))
    return [TrainConfig(task, model, settings, protocol, seeds) for task in tasks]
