"""`rt train lobster`: train a fleet of seeds on shortest paths in lobster graphs."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro

from relational_transformer.lobster import SETTINGS, LobsterConfig, LobsterProtocol, LobsterTask
from relational_transformer.lobster.settings import ModelName
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.session import train

from .train_run import RunOptions, changes_of, train_and_show


@dataclass(frozen=True)
class TrainLobsterArguments:
    """Train many seeds of a model to predict the distance between two nodes of a lobster graph, on graphs of sizes 4 to
    33, and test the best of each on graphs of size 100: the paper's second experiment. Scores are relative losses,
    |y - ŷ| / |y|; the paper has 0.22 for rt, 0.28 for gat, 0.45 for gcn.

    A size is the length of a graph's spine; a graph has about a quarter more nodes. The run is a folder. Killed at any
    moment, the same command goes on from the last checkpoint and ends with the same numbers.
    """

    model: ModelName = "rt"
    """The Relational Transformer, or one of the paper's two baselines; each of 30 layers."""
    run: Annotated[RunOptions, tyro.conf.arg(name="")] = field(default_factory=RunOptions)
    weighted: bool = False
    """Edges of random length, U[0.5, 1.5) in each direction, instead of length 1."""
    epochs: int | None = None
    """Times that each seed goes through the training set; 200 by default."""
    examples: int | None = None
    """Graphs that each seed trains on; another way to say --epochs."""
    train_examples: int | None = None
    """Size of the training set; 10,000 by default."""
    validation_interval: int | None = None
    """A validation after so many graphs, in whole batches; by default a tenth of the run."""
    evaluation_examples: int | None = None
    """Graphs of the validation set and of the test sets; 1,000 by default."""
    test_size: int | None = None
    """Size of the graphs of validation and test; 100 by default."""
    num_layers: int | None = None
    """Layers; 30 by default."""
    learning_rate: float | None = None
    gradient_clip: float | None = None
    """Largest norm of a gradient; 128 for rt, not clipped for the baselines."""
    batch_size: int | None = None


def run(arguments: TrainLobsterArguments) -> None:
    changes = changes_of(arguments, "num_layers", "learning_rate", "gradient_clip", "batch_size")
    settings = replace(SETTINGS[arguments.model], **changes)
    config = LobsterConfig(arguments.model, settings, _protocol(arguments), **arguments.run.as_config())
    name = f"lobster-{arguments.model}{'-weighted' if arguments.weighted else ''}"
    train_and_show(LobsterTask(config), arguments.run, RunFolder(arguments.run.out or Path("runs") / name), train)


def _protocol(arguments: TrainLobsterArguments) -> LobsterProtocol:
    names = ("weighted", "examples", "train_examples", "validation_interval", "evaluation_examples", "test_size")
    given = changes_of(arguments, *names)
    if arguments.epochs is not None:
        if arguments.examples is not None:
            raise ValueError("--epochs and --examples say the same in two ways: give one of them")
        given["examples"] = arguments.epochs * given.get("train_examples", LobsterProtocol.train_examples)
    return LobsterProtocol.like_the_papers(**given)
