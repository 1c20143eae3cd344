"""The models of the gallery: `python docs/tools/gallery.py [TASK ...]` trains a small RT for each of the thirty
algorithms, or for those that are named, and puts it into `results/gallery/TASK`: configuration, metrics, result, and
the best parameters alone. What is there already is left as it is.

All have one recipe, made for one core of a CPU: `rt train TASK --protocol modern` with a small model and small
graphs, which have short trajectories, so that a minute is enough for many examples of every algorithm.
"""

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch

from relational_transformer.clrs.checks import check_name
from relational_transformer.clrs.classes import ALGORITHMS, STRING_MATCHERS
from relational_transformer.clrs.samples.modern import training_lengths
from relational_transformer.clrs.samples.sampling import sample
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
    find_settings("rt", modern=True),
    hidden_size=32, num_heads=4, num_layers=1, batch_size=16, learning_rate=3e-3, edge_pointers="bound",
)  # fmt: skip
SCHEDULE = Schedule(warmup_steps=20, decay="cosine")
LENGTHS = (4, 7, 10)
"""Sizes of the training examples. Examples of string matchers have 20 characters, as in the protocol."""
STEPS = 4_500
"""Steps of the algorithm in training, one batch counted once."""
MOST = 600
"""Updates."""
VALIDATIONS = 5
EVALUATED = 16
"""Graphs of a validation; algorithms with few outputs have 32 or 64."""
TESTED, TEST_NODES = 8, 32
"""Graphs of the test, likewise, and their nodes."""


def config_of(task: str) -> TrainConfig:
    """The run of an algorithm."""
    lengths = training_lengths(task) if task in STRING_MATCHERS else LENGTHS
    updates = min(MOST, STEPS / steps_of(task, lengths))
    part = round(updates / VALIDATIONS / len(lengths)) * len(lengths) * SETTINGS.batch_size
    protocol = replace(
        PROTOCOLS["modern"],
        ties="first",
        train_lengths=lengths,
        examples=part * VALIDATIONS,
        validation_interval=part,
        validation_examples=max(1, EVALUATED // MULTIPLIERS.get(task, 1)),
        test_nodes=TEST_NODES,
        evaluation_examples=max(1, TESTED // MULTIPLIERS.get(task, 1)),
    )
    return TrainConfig(task, "rt", SETTINGS, protocol, seeds=(0,), precision="fp32", compile="off", schedule=SCHEDULE)


def steps_of(task: str, lengths: tuple[int, ...]) -> float:
    """The steps of an example, in the mean over some of each size."""
    return fmean(sample(task, 32, length, 4, protocol="modern").lengths.mean() - 1 for length in lengths)


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
