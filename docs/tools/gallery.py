"""The models of the gallery: `python docs/tools/gallery.py [TASK ...]` trains a small RT for each of the thirty
algorithms, or for those that are named, and puts it into `results/gallery/TASK`: configuration, metrics, result, and
the best parameters alone. What is there already is left as it is.

All have one recipe: `rt train TASK --protocol quick` with the settings below, which is made for one core of a CPU. Long
trajectories get fewer examples.
"""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import torch

from relational_transformer.clrs.checks import check_name
from relational_transformer.clrs.classes import ALGORITHMS
from relational_transformer.clrs.task_sizes import TASK_SIZES
from relational_transformer.fleet.adam import Schedule
from relational_transformer.processors.settings import find_settings
from relational_transformer.runs.checkpoint import read_checkpoint, save_checkpoint
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.runs.session import Stopped, train
from relational_transformer.training import PROTOCOLS, CLRSTask, TrainConfig
from relational_transformer.training.data import MULTIPLIERS

REPOSITORY = Path(__file__).parents[2]
GALLERY = REPOSITORY / "results" / "gallery"
RUNS = REPOSITORY / "runs" / "gallery"

SETTINGS = replace(
    find_settings("rt"),
    hidden_size=32, num_heads=2, num_layers=2, batch_size=8, learning_rate=3e-3, gradient_clip=1.0,
)  # fmt: skip
SCHEDULE = Schedule(warmup_steps=20, decay="cosine")
STEPS = 30_000
"""Steps of the algorithm in training, one example counted once."""
LEAST, MOST = 400, 4_000
"""Training examples."""
VALIDATIONS = 10
LEAST_EVALUATED = 16
"""Graphs of a validation; algorithms with few outputs have up to 64."""


def config_of(task: str) -> TrainConfig:
    """The run of an algorithm."""
    examples = min(MOST, max(LEAST, round(STEPS / (TASK_SIZES[task].train_hints - 1))))
    part = examples // VALIDATIONS // SETTINGS.batch_size * SETTINGS.batch_size
    protocol = replace(
        PROTOCOLS["quick"],
        examples=part * VALIDATIONS,
        validation_interval=part,
        evaluation_examples=1,
        minimum_evaluation_examples=8,  # of the test
        validation_examples=max(1, LEAST_EVALUATED // MULTIPLIERS.get(task, 1)),
    )
    return TrainConfig(task, "rt", SETTINGS, protocol, seeds=(0,), precision="fp32", compile="off", schedule=SCHEDULE)


def publish(run: RunFolder, folder: Path) -> None:
    """Copy a run that has ended, with its best parameters in place of all that training needs to go on."""
    result, config = run.read_result(), run.read_config()
    if result is None:
        raise ValueError(f"the run in {run.path} has not ended")
    tensors = read_checkpoint(run.checkpoint).tensors
    kept = {name: tensor for name, tensor in tensors.items() if name.startswith("best.")}
    kept |= {name: tensors[name] for name in ("finite", "best_scores")}
    with RunFolder(folder).opened(config) as opened:
        shutil.copyfile(run.metrics, opened.metrics)
        save_checkpoint(opened, config, kept, {})
        opened.write_result({key: value for key, value in result.items() if key not in ("files", "sha256")})
        opened.lock.unlink()


def main(tasks: list[str]) -> None:
    torch.set_num_threads(1)  # more do not help models as small
    for task in tasks or ALGORITHMS:
        check_name(task)
        if RunFolder(GALLERY / task).result.is_file():
            continue
        result = train(CLRSTask(config_of(task)), RUNS / task, torch.device("cpu"))
        publish(RunFolder(RUNS / task), GALLERY / task)
        (row,) = result["seeds"]
        scores = f"validation {row['validation']:.3f}  test {row['test']:.3f}"
        print(f"{task:30} {result['seconds']:4.0f} s  {scores}", flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Stopped as stopped:
        sys.exit(str(stopped))
