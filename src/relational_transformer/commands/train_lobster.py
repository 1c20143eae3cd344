"""`rt train lobster`: train a fleet of seeds on shortest paths in lobster graphs."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.fleet import consecutive_seeds
from relational_transformer.fleet.precision import Precision, default_device, find_device
from relational_transformer.lobster import SETTINGS, LobsterConfig, LobsterProtocol, LobsterTask
from relational_transformer.lobster.settings import ModelName
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.session import train

from .train_lobster_display import LobsterDisplay, show_result


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
    seeds: int = 1
    """How many seeds are trained together; the paper has 20."""
    first_seed: int = 0
    """The first of them; the others follow."""
    out: Path | None = None
    """Folder of the run; by default runs/lobster-MODEL, or runs/lobster-MODEL-weighted."""
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
    batch_size: int | None = None
    precision: Precision = "tf32"
    """tf32 (on a CPU the same as fp32), bf16, fp32 or fp64."""
    compile: CompileMode = "auto"
    """Compile a layer: on CUDA, and in long runs on a CPU."""
    device: str = field(default_factory=default_device)
    checkpoint_seconds: float = 60.0
    """A checkpoint is written about so often, and at the end."""


def run(arguments: TrainLobsterArguments) -> None:
    config = LobsterConfig(
        model=arguments.model,
        settings=replace(SETTINGS[arguments.model], **_given(arguments, "num_layers", "learning_rate", "batch_size")),
        protocol=_protocol(arguments),
        seeds=consecutive_seeds(arguments.first_seed, arguments.seeds),
        precision=arguments.precision,
        compile=arguments.compile,
    )
    name = f"lobster-{arguments.model}{'-weighted' if arguments.weighted else ''}"
    folder = RunFolder(arguments.out or Path("runs") / name)
    with LobsterDisplay(config) as display:
        result = train(
            LobsterTask(config),
            folder.path,
            find_device(arguments.device),
            report=display.update,
            checkpoint_seconds=arguments.checkpoint_seconds,
        )
    show_result(result, folder)


def _protocol(arguments: TrainLobsterArguments) -> LobsterProtocol:
    names = ("weighted", "examples", "train_examples", "validation_interval", "evaluation_examples", "test_size")
    given = _given(arguments, *names)
    if arguments.epochs is not None:
        if arguments.examples is not None:
            raise ValueError("--epochs and --examples say the same in two ways: give one of them")
        given["examples"] = arguments.epochs * given.get("train_examples", LobsterProtocol.train_examples)
    return LobsterProtocol.like_the_papers(**given)


def _given(arguments: TrainLobsterArguments, *names: str) -> dict:
    values = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}
