"""`rt train lobster`: train a fleet of seeds on shortest paths in lobster graphs."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from relational_transformer.lobster import SETTINGS, LobsterConfig, LobsterProtocol, LobsterTask
from relational_transformer.lobster.settings import Attention, ModelName, TrainingSettings
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.session import train

from .train_run import RunOptions, changes_of, train_and_show


@dataclass(frozen=True)
class TrainLobsterArguments:
    """The paper's second experiment: predict the distance between two nodes of a lobster graph (a tree whose nodes are
    at most two steps from a path, its spine). Training graphs have sizes 4 to 33, test graphs size 100; the size is the
    length of the spine, and a graph has about a quarter more nodes.

    A score is a relative loss, |y - ŷ| / |y|; lower is better. The paper's are 0.22 for rt, 0.28 for gat and 0.45 for
    gcn. A killed run resumes from the last checkpoint with the same command, and ends with the same numbers.
    """

    model: ModelName = "rt"
    """The Relational Transformer, or one of the paper's two baselines. Each has 30 layers."""
    run: RunOptions = field(default_factory=RunOptions)
    """Seeds, the folder of the run, and how it is computed."""
    weighted: bool = False
    """Draw the length of an edge from U[0.5, 1.5) in each direction. Otherwise every edge has length 1."""
    epochs: int | None = None
    """Passes of each seed over the training set; 200 by default."""
    examples: int | None = None
    """Graphs that each seed trains on, instead of --epochs."""
    train_examples: int = LobsterProtocol.train_examples
    """The number of graphs of the training set."""
    validation_interval: int | None = None
    """Graphs between two validations, rounded to whole batches; by default a tenth of the run."""
    evaluation_examples: int = LobsterProtocol.evaluation_examples
    """The number of graphs of the validation set and of each test set."""
    test_size: int = LobsterProtocol.test_size
    """The size of validation and test graphs."""
    num_layers: int = TrainingSettings.num_layers
    """The number of layers."""
    learning_rate: float | None = None
    """Adam's learning rate; by default 6.3e-5 for rt, 1e-3 for the baselines."""
    gradient_clip: float | None = None
    """The norm to which the gradient of a seed is clipped; by default 128 for rt, and no clipping for the baselines."""
    batch_size: int = TrainingSettings.batch_size
    """Graphs in a batch of one seed."""
    attention: Attention | None = None
    """Whom a node of rt attends to: all nodes, as published, or edges: along the edges of the graph, and to itself."""


def run(arguments: TrainLobsterArguments) -> None:
    if arguments.attention is not None and arguments.model != "rt":
        raise ValueError(f"--attention is an option of rt: {arguments.model} always attends to its neighbours alone")
    changes = changes_of(arguments, "num_layers", "learning_rate", "gradient_clip", "batch_size", "attention")
    settings = replace(SETTINGS[arguments.model], **changes)
    config = LobsterConfig(arguments.model, settings, _protocol(arguments), **arguments.run.as_config())
    name = f"lobster-{arguments.model}"
    name += "-edges" if arguments.attention == "edges" else ""
    name += "-weighted" if arguments.weighted else ""
    train_and_show(LobsterTask(config), arguments.run, RunFolder(arguments.run.out or Path("runs") / name), train)


def _protocol(arguments: TrainLobsterArguments) -> LobsterProtocol:
    names = ("weighted", "examples", "train_examples", "validation_interval", "evaluation_examples", "test_size")
    given = changes_of(arguments, *names)
    if arguments.epochs is not None:
        if arguments.examples is not None:
            raise ValueError("--epochs and --examples both set the length of training: give one of them")
        given["examples"] = arguments.epochs * arguments.train_examples
    return LobsterProtocol.like_the_papers(**given)
