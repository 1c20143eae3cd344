"""`rt train`: train a fleet of seeds on a CLRS-30 task."""

from contextlib import closing, nullcontext
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from relational_transformer.clrs.checks import check_name
from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.fleet import consecutive_seeds
from relational_transformer.fleet.precision import Precision, default_device, find_device
from relational_transformer.processors.settings import Settings, find_settings
from relational_transformer.runs import RunFolder
from relational_transformer.runs.curves import TensorBoardCurves, draw_curves
from relational_transformer.runs.session import train
from relational_transformer.runs.trainer import Trainer
from relational_transformer.training import PROTOCOLS, CLRSTask, Protocol, TrainConfig

from .train_display import Display
from .train_live_line import say


@dataclass(frozen=True)
class TrainArguments:
    """Train many seeds of a model on an algorithm at once, by the paper's protocol, and test the best of each.

    The run is a folder. Killed at any moment, the same command goes on from the last checkpoint and ends with the same
    numbers; a run that has ended is not run again.
    """

    task: Annotated[str, tyro.conf.Positional]
    """An algorithm of CLRS-30, such as bellman_ford; a name that is none is answered with all thirty."""
    processor: str = "rt"
    """A model: rt, mpnn, pgn, pgn_masked, deep_sets, gat, gatv2, transformer, rt_core, untuned_mpnn, ..."""
    seeds: int = 1
    """How many seeds are trained together."""
    first_seed: int = 0
    """The first of them; the others follow."""
    out: Path | None = None
    """Folder of the run; by default runs/TASK-PROCESSOR-PROTOCOL."""
    protocol: Literal["paper", "quick"] = "paper"
    """The paper's protocol, or a quick one for a laptop; the options below change single numbers of it."""
    examples: int | None = None
    """Examples that each seed trains on."""
    train_examples: int | None = None
    """Size of the training set."""
    train_nodes: int | None = None
    """Nodes of the training graphs."""
    train_data_seed: int | None = None
    """Seed of the training graphs."""
    validation_interval: int | None = None
    """A validation after so many examples."""
    validation_nodes: int | None = None
    """Nodes of the validation graphs."""
    validation_data_seed: int | None = None
    """Seed of the validation graphs."""
    test_nodes: int | None = None
    """Nodes of the test graphs."""
    test_data_seed: int | None = None
    """Seed of the test graphs."""
    evaluation_examples: int | None = None
    """Graphs of the validation and of the test set, times the algorithm's multiplier."""
    minimum_evaluation_examples: int | None = None
    """At least so many graphs in each of them."""
    teacher_forcing: float | None = None
    """Probability with which a step sees the true hints."""
    learning_rate: float | None = None
    gradient_clip: float | None = None
    """Largest norm of a gradient, such as 1.0; not clipped by default, as published."""
    batch_size: int | None = None
    num_layers: int | None = None
    hidden_size: int | None = None
    num_heads: int | None = None
    precision: Precision = "tf32"
    """tf32 (on a CPU the same as fp32), bf16, fp32 or fp64."""
    compile: CompileMode = "auto"
    """Compile the training step: on CUDA, and in long runs on a CPU."""
    device: str = field(default_factory=default_device)
    checkpoint_seconds: float = 60.0
    """A checkpoint is written about so often, and at the end."""
    tensorboard: bool = False
    """Also write curves for TensorBoard into the folder of the run, while it trains."""


def run(arguments: TrainArguments) -> None:
    check_name(arguments.task)
    config = TrainConfig(
        task=arguments.task,
        model=arguments.processor,
        settings=_settings(arguments),
        protocol=_protocol(arguments),
        seeds=consecutive_seeds(arguments.first_seed, arguments.seeds),
        precision=arguments.precision,
        compile=arguments.compile,
    )
    out = arguments.out or Path("runs") / f"{arguments.task}-{arguments.processor}-{arguments.protocol}"
    folder = RunFolder(out)
    curves = TensorBoardCurves(folder, config.seeds) if arguments.tensorboard else None
    with Display(config) as display, closing(curves) if curves else nullcontext():

        def report(trainer: Trainer) -> None:
            display.update(trainer)
            if curves:
                curves.update(trainer.metrics_so_far())

        result = train(
            CLRSTask(config),
            out,
            find_device(arguments.device),
            report=report,
            checkpoint_seconds=arguments.checkpoint_seconds,
        )
        metrics = folder.read_metrics()
        if curves:
            curves.update(metrics)
    display.show_result(result, folder)
    title, test_scores = f"{arguments.processor} on {arguments.task}", [row["test"] for row in result["seeds"]]
    try:
        draw_curves(folder.curves, title, metrics, test_scores)
        say(f"picture  {folder.curves}")
    except ModuleNotFoundError as error:  # the run is whole without it
        say(f"picture  none: {error}")


def _settings(arguments: TrainArguments) -> Settings:
    names = ("learning_rate", "gradient_clip", "batch_size", "num_layers", "hidden_size", "num_heads")
    return replace(find_settings(arguments.processor), **_given(arguments, names))


def _protocol(arguments: TrainArguments) -> Protocol:
    names = tuple(one.name for one in fields(Protocol))
    return replace(PROTOCOLS[arguments.protocol], **_given(arguments, names))


def _given(arguments: TrainArguments, names: tuple[str, ...]) -> dict[str, float]:
    values = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}
