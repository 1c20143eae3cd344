"""What all variants of `rt train` share: the options of a run, its training and its display."""

from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from relational_transformer.fleet.adam import CONSTANT, Schedule
from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.fleet import consecutive_seeds
from relational_transformer.fleet.precision import PrecisionChoice, choose_precision, default_device, find_device
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.session import train
from relational_transformer.runs.task import Task
from relational_transformer.runs.trainer import Trainer

from .terminal.training import Display, say


@dataclass(frozen=True)
class RunOptions:
    """The options that all tasks have."""

    seeds: int = 1
    """The number of seeds, which are trained together as a fleet."""
    first_seed: int = 0
    """The first seed; the others are the numbers after it."""
    out: Path | None = None
    """The folder of the run; by default one in runs/, named after task and model."""
    schedule: Annotated[Schedule, tyro.conf.arg(name="")] = CONSTANT
    precision: PrecisionChoice = "auto"
    """auto: bf16 on GPUs that have the fused kernels, tf32 on other GPUs, fp32 on a CPU."""
    compile: CompileMode = "auto"
    """Compile training steps; auto: on CUDA but for the modern protocol, and in long runs on a CPU."""
    device: str = field(default_factory=default_device)
    """cuda, cuda:1 or cpu; by default a CUDA device if there is one."""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints. The last one is written when the run ends."""
    tensorboard: bool = False
    """Write learning curves for TensorBoard into the folder of the run, during training (extra tensorboard)."""

    def as_config(self) -> dict[str, Any]:
        """The options that are part of a configuration."""
        return {
            "seeds": consecutive_seeds(self.first_seed, self.seeds),
            "precision": choose_precision(self.precision, find_device(self.device)),
            "compile": self.compile,
            "schedule": self.schedule,
        }


def train_and_show(
    task: Task[Any], options: RunOptions, folder: RunFolder, train: Callable[..., dict[str, Any]] = train
) -> None:
    """Train or resume a run, and show its progress, its scores and its learning curves.

    Raises FloatingPointError at the end if every seed has failed.
    """
    curves = None
    if options.tensorboard:
        from relational_transformer.runs.curves import TensorBoardCurves

        curves = TensorBoardCurves(folder, task.config.seeds)
    with Display(task) as display, closing(curves) if curves else nullcontext():

        def report(trainer: Trainer) -> None:
            display.update(trainer)
            if curves:
                curves.update(trainer.metrics_so_far())

        result = train(
            task,
            folder.path,
            find_device(options.device),
            report=report,
            checkpoint_seconds=options.checkpoint_seconds,
        )
        metrics = folder.find_metrics_of(result, task.row_type)
        if curves:
            curves.update(metrics)
    display.show_result(result, metrics, folder)
    if metrics:
        _draw(task, folder, metrics, result)
    if all(row["failed"] for row in result["seeds"]):
        raise FloatingPointError(
            f"every seed of {folder.path} has failed: its loss was not finite; try another run with a smaller "
            "--learning-rate or another --precision"
        )


def _draw(task: Task[Any], folder: RunFolder, metrics: list[dict[str, Any]], result: dict[str, Any]) -> None:
    try:
        task.draw(folder.curves, f"{task.config.model} on {task.config.task}", metrics, result["seeds"])
        say(f"picture  {folder.curves}")
    except ModuleNotFoundError as error:  # the result does not need it
        say(f"picture  none: {error}")


def changes_of(arguments: Any, *names: str) -> dict[str, Any]:
    """The options of these names that the user gave."""
    values = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}
