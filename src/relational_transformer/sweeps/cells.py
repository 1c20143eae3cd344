"""The cells of a table: the selected models and tasks of an experiment, each a configuration with all of its seeds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from relational_transformer.clrs.classes import ALGORITHMS
from relational_transformer.clrs.feature import ProtocolName
from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.fleet import consecutive_seeds
from relational_transformer.fleet.precision import Precision
from relational_transformer.runs.config import RunConfig
from relational_transformer.tasks import find_task, kind_of

from .experiments import ALIASES, Experiment


class Cell(NamedTuple):
    """One model on one task under one protocol. `config` names all its seeds. `data` is the folder of its data, if they
    are not generated."""

    kind: str
    config: RunConfig
    data: str | None = None


@dataclass(frozen=True)
class Selection:
    """The selected tasks, models and seeds of an experiment, and how they are trained. Empty fields and None stand
    for the paper's values.

    >>> selection = Selection(tasks=("core",), models=("rt", "mpnn"), seeds=3)
    """

    tasks: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    seeds: int | None = None
    examples: int | None = None
    precision: Precision = "tf32"
    precision_of: Mapping[str, Precision] = field(default_factory=dict)
    """CLRS-30: the precision of single tasks."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """CLRS-30: settings that replace those of all models."""
    schedule: Mapping[str, Any] = field(default_factory=dict)
    """CLRS-30: what replaces the schedules of all models' learning rates."""
    compile: CompileMode = "auto"
    protocol: ProtocolName | None = None
    """CLRS-30: the paper's protocol, or the modern one; by default that of the experiment."""
    recipe: Literal["original", "batched"] = "original"
    """Sokoban: the training recipe of the agent."""
    levels: str | None = None
    """Sokoban: a Boxoban folder; None for generated levels."""


WHOLE = Selection()


def cells_of(experiment: Experiment, selection: Selection = WHOLE) -> list[Cell]:
    """The selected cells, task by task. An experiment without seeds has no cells, because it trains nothing.

    >>> from relational_transformer.sweeps import EXPERIMENTS
    >>> [(cell.config.task, cell.config.model) for cell in cells_of(EXPERIMENTS["lobster"])]
    [('lobster', 'rt'), ('lobster', 'gat'), ('lobster', 'gcn')]
    """
    tasks = choose("task", selection.tasks, experiment.tasks)
    models = choose("model", selection.models, experiment.models)
    if "sokoban" not in tasks and (selection.levels, selection.recipe) != (WHOLE.levels, WHOLE.recipe):
        raise ValueError("--levels and --recipe are for Sokoban, which is not among the chosen tasks")
    of_clrs = {"precision_of": WHOLE.precision_of, "changes": WHOLE.changes, "schedule": WHOLE.schedule}
    if not set(tasks) <= set(ALGORITHMS) and any(getattr(selection, name) != usual for name, usual in of_clrs.items()):
        raise ValueError("other settings, schedules and precisions of single tasks are for CLRS-30 alone")
    if unknown := sorted(selection.precision_of.keys() - tasks):
        raise ValueError(f"{unknown[0]!r} has a precision of its own, but is not among the chosen tasks")
    if experiment.seeds == 0:
        return []
    seeds = consecutive_seeds(0, experiment.seeds if selection.seeds is None else selection.seeds)
    examples = experiment.examples if selection.examples is None else selection.examples
    levels = _identify(selection.levels) if "sokoban" in tasks and selection.levels is not None else None
    selection = replace(selection, protocol=protocol_of(experiment, selection))
    return [
        _cell(task, model, train_size, seeds, examples, selection, levels)
        for task in tasks
        for model in models
        for train_size in experiment.train_sizes
    ]


def protocol_of(experiment: Experiment, selection: Selection = WHOLE) -> ProtocolName:
    """The protocol of the cells of CLRS-30.

    >>> from relational_transformer.sweeps import EXPERIMENTS
    >>> protocol_of(EXPERIMENTS["main"]), protocol_of(EXPERIMENTS["modern"])
    ('paper', 'modern')
    """
    return selection.protocol or experiment.protocol


def _cell(
    task: str,
    model: str,
    train_size: int,
    seeds: tuple[int, ...],
    examples: int | None,
    selection: Selection,
    levels: Any,
) -> Cell:
    kind = kind_of(task)
    config = find_task(kind).paper_config(
        task, model, seeds, examples=examples, precision=selection.precision_of.get(task, selection.precision),
        compile=selection.compile, train_examples=train_size, protocol=selection.protocol, changes=selection.changes,
        schedule=selection.schedule, recipe=selection.recipe, levels=levels,
    )  # fmt: skip
    return Cell(kind, config, None if levels is None else selection.levels)


def _identify(folder: str) -> Any:
    """The identity of the levels in a folder. All levels are read, once for all cells."""
    from relational_transformer.sokoban import SokobanConfig, load_splits

    return load_splits(folder, SokobanConfig.test_levels).identity


def choose(what: str, names: Iterable[str], offered: tuple[str, ...]) -> tuple[str, ...]:
    """The offered names that are given, each once, in the given order; all of them if none is given.

    >>> choose("model", ("pgn_combined", "rt", "pgn"), ("rt", "pgn", "pgn_masked"))
    ('pgn', 'pgn_masked', 'rt')
    """
    wanted = [name for given in names for name in ALIASES.get(given, (given,))]
    for name in wanted:
        if name not in offered:
            raise ValueError(f"this experiment has no {what} {name!r}; it has {', '.join(offered)}")
    return tuple(dict.fromkeys(wanted)) or offered
