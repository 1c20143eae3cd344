"""`rt train`: train a fleet of seeds on a CLRS-30 task."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from relational_transformer.clrs.checks import check_name
from relational_transformer.command_line import said_before
from relational_transformer.processors.settings import Settings, find_settings
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.session import train
from relational_transformer.training import PROTOCOLS, CLRSTask, Protocol, TrainConfig, find_schedule

from .train_run import RunOptions, train_and_show


@dataclass(frozen=True)
class TrainArguments:
    """Train seeds of a model on an algorithm of CLRS-30, all at once. The parameters with the best validation score of
    each seed are tested on larger graphs. A score is the share of right pointers, nodes or classes in the output (for
    masks F1); 100% is perfect.

    A run is a folder. A killed run resumes from the last checkpoint with the same command, and ends with the same
    numbers. A run that has a result is not trained again.
    """

    task: Annotated[str, tyro.conf.Positional]
    """An algorithm of CLRS-30, such as bellman_ford. A wrong name lists all thirty."""
    model: str = "rt"
    """rt, mpnn, pgn, pgn_masked, deep_sets, gat, gatv2, transformer, triplet_gmpnn, or a variant such as rt_core or
    untuned_mpnn. A wrong name lists all."""
    protocol: Literal["paper", "quick", "modern"] = "paper"
    """paper: the paper's, 320,000 examples; quick: 4,000 examples, minutes on a laptop; modern: the protocol in use
    since 2022, with fresh examples of several sizes, soft hints, batches of 32 and clipped gradients."""
    run: RunOptions = field(default_factory=RunOptions)
    """Seeds, the folder of the run, and how it is computed."""
    numbers: Annotated[Protocol, tyro.conf.arg(name="protocol")] = PROTOCOLS["paper"]
    """Data, training and tests; the defaults are those of the --protocol on this command line."""
    settings: Annotated[Settings, tyro.conf.arg(name="model")] = field(default_factory=lambda: find_settings("rt"))
    """The network and its optimiser; the defaults are those of the --model on this command line."""


def defaults(words: Sequence[str]) -> TrainArguments:
    """The default options, given the model and the protocol on the command line."""
    said = said_before(words, model="rt", protocol="paper")
    numbers = PROTOCOLS.get(said["protocol"], PROTOCOLS["paper"])
    return TrainArguments(
        tyro.MISSING,
        run=RunOptions(schedule=find_schedule(said["model"], modern=numbers.is_modern)),
        numbers=numbers,
        settings=find_settings(said["model"], modern=numbers.is_modern),
    )


def run(arguments: TrainArguments) -> None:
    check_name(arguments.task)
    if arguments.settings.processor != find_settings(arguments.model).processor:
        raise ValueError("--model sets the processor: leave --processor out")
    config = TrainConfig(
        arguments.task, arguments.model, arguments.settings, arguments.numbers, **arguments.run.as_config()
    )
    out = arguments.run.out or Path("runs") / f"{arguments.task}-{arguments.model}-{arguments.protocol}"
    task, folder = CLRSTask(config), RunFolder(out)
    train_and_show(task, arguments.run, folder, train)
