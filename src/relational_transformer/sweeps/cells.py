"""The cells of a table: the part of an experiment that was asked for, each a configuration with all of its seeds."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from relational_transformer.processors.settings import find_settings
from relational_transformer.training.config import CompileMode, TrainConfig
from relational_transformer.training.precision import Precision
from relational_transformer.training.protocol import PROTOCOLS

from .experiments import ALIASES, Experiment
from .kinds import Config


class Cell(NamedTuple):
    """One model on one task under one protocol; `config` names every seed that is wanted."""

    kind: str
    config: Config


@dataclass(frozen=True)
class Part:
    """Which part of an experiment, and how it is trained. What is empty or None is all, as the paper has it."""

    tasks: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    seeds: int | None = None
    examples: int | None = None
    precision: Precision = "tf32"
    compile: CompileMode = "auto"


WHOLE = Part()


def cells_of(experiment: Experiment, part: Part = WHOLE) -> list[Cell]:
    """The cells of that part, task by task."""
    tasks = choose("task", part.tasks, experiment.tasks)
    models = choose("model", part.models, experiment.models)
    seeds = experiment.seeds if part.seeds is None else part.seeds
    if part.seeds is not None and part.seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {part.seeds}")
    return [
        _clrs_cell(task, model, size, tuple(range(seeds)), experiment, part)
        for task in tasks
        for model in models
        for size in experiment.train_sizes
        if seeds
    ]


def _clrs_cell(
    task: str, model: str, train_size: int, seeds: tuple[int, ...], experiment: Experiment, part: Part
) -> Cell:
    examples = experiment.examples if part.examples is None else part.examples
    protocol = replace(PROTOCOLS["paper"], train_examples=train_size)
    protocol = protocol if examples is None else replace(protocol, examples=examples)
    config = TrainConfig(task, model, find_settings(model), protocol, seeds, part.precision, part.compile)
    return Cell("clrs", config)


def choose(what: str, names: Iterable[str], offered: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the offered that are named, in the order of the offer; all of them where none is named.

    >>> choose("model", ("pgn_combined",), ("rt", "pgn", "pgn_masked"))
    ('pgn', 'pgn_masked')
    """
    wanted = [name for given in names for name in ALIASES.get(given, (given,))]
    for name in wanted:
        if name not in offered:
            raise ValueError(f"this experiment has no {what} {name!r}; it has {', '.join(offered)}")
    return tuple(name for name in offered if name in wanted or not wanted)
