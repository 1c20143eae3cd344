"""Small runs of the three tasks, finished and not, and the doors that lead into their folders."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch

from relational_transformer.lobster import LobsterTrainer
from relational_transformer.lobster import train as train_lobster
from relational_transformer.lobster import trained as lobster_trained
from relational_transformer.nn.digest import digest
from relational_transformer.reports.figures.curves import read_curve
from relational_transformer.reports.measured import read_results
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.sokoban import load_splits
from relational_transformer.sokoban import trained as sokoban_trained
from relational_transformer.sokoban.session import train as train_sokoban
from relational_transformer.sokoban.splits import remember_folder
from relational_transformer.sokoban.trainer import SokobanTrainer
from relational_transformer.sweeps import Run
from relational_transformer.training import Trainer
from relational_transformer.training import trained as clrs_trained
from relational_transformer.training.session import train as train_clrs
from tests.lobster.small import small_config as lobster_config
from tests.sokoban.small import small_config as sokoban_config
from tests.sokoban.small import write_levels
from tests.training.small import small_config as clrs_config

CPU = torch.device("cpu")
TURNS_BEFORE_LEAVING = 2


class Task(NamedTuple):
    """What can be trained, and how."""

    kind: str
    config: Any
    make_trainer: Callable[[RunFolder], Any]
    train: Callable[[str], dict[str, Any]]
    load_best: Callable[[RunFolder], Any]
    evaluate: Callable[[RunFolder], Any]


def tasks(folder: Path) -> list[Task]:
    """The smallest of each; their data lie in `folder`."""
    clrs, lobster = clrs_config(), lobster_config("gcn")
    place = write_levels(folder / "levels")
    sokoban = sokoban_config(place)
    splits = load_splits(place, sokoban.test_levels)

    def make_sokoban(run: RunFolder) -> SokobanTrainer:
        remember_folder(run, Path(place))
        return SokobanTrainer(sokoban, run, CPU, splits)

    return [
        Task(
            "clrs", clrs, lambda run: Trainer(clrs, run, CPU), lambda out: train_clrs(clrs, out, CPU),
            clrs_trained.load_best, lambda run: clrs_trained.evaluate_run(run, CPU)[1],
        ),
        Task(
            "lobster", lobster, lambda run: LobsterTrainer(lobster, run, CPU),
            lambda out: train_lobster(lobster, out, CPU), lobster_trained.load_best,
            lambda run: lobster_trained.evaluate_run(run, CPU).losses,
        ),
        Task(
            "sokoban", sokoban, make_sokoban, lambda out: train_sokoban(sokoban, out, CPU),
            sokoban_trained.load_best,
            lambda run: sokoban_trained.evaluate_run(run, CPU, sokoban_trained.levels_of_run(run)),
        ),
    ]  # fmt: skip


def leave_unfinished(task: Task, path: Path) -> None:
    """A run that was stopped, with two checkpoints."""
    folder = RunFolder(path)
    with folder.opened(task.config.as_dict()):
        trainer = task.make_trainer(folder)
        turns = trainer.run()
        for _ in range(TURNS_BEFORE_LEAVING):
            next(turns)
            trainer.save()


def finish(task: Task, path: Path) -> None:
    """The same run, gone on with to its result."""
    leave_unfinished(task, path)
    task.train(str(path))


# Every door takes a task and a folder, and answers with what can be compared.


def load(task: Task, path: Path) -> object:
    """Its best parameters."""
    config, best, finite = task.load_best(RunFolder(path))
    return config, digest(best), finite


def evaluate(task: Task, path: Path) -> object:
    return task.evaluate(RunFolder(path))


def go_on(task: Task, path: Path) -> object:
    """Where training goes on from."""
    folder = RunFolder(path)
    with folder.opened(task.config.as_dict()):
        trainer = task.make_trainer(folder)
        state = trainer.examples, digest({name: tensor.clone() for name, tensor in trainer._state().items()})
        next(trainer.run(), None)
    return state


def show(task: Task, path: Path) -> object:
    """What `rt train` shows of a finished run, and the curves that it draws."""
    result = task.train(str(path))
    return result["seeds"], json.dumps(RunFolder(path).find_metrics_of(result))


def report(task: Task, path: Path) -> object:
    found = read_results(path)
    return [(asdict(one), read_curve(one)) for one in found]


def look(task: Task, path: Path) -> object:
    """What a sweep sees of a run that another process is working on; a guess where there is nothing to see."""
    share = Run(task.kind, task.config, path).share_done
    assert 0.0 <= share <= 1.0
    return True
