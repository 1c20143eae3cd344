"""Small runs of all tasks, finished and not, and the doors that lead into their folders."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from relational_transformer.analysis.hint_scores import evaluate_hints
from relational_transformer.lobster import LobsterTask
from relational_transformer.look.page import make_page
from relational_transformer.look.run import open_run
from relational_transformer.molecules import QM9Task
from relational_transformer.nn.saving.digest import digest
from relational_transformer.reports.figures.curves import read_curve
from relational_transformer.reports.results.measured import read_results
from relational_transformer.runs import RunFolder, Trainer
from relational_transformer.runs import train as train_task
from relational_transformer.runs.checkpoint import load_trained
from relational_transformer.sokoban import trained as sokoban_trained
from relational_transformer.sweeps import Run
from relational_transformer.tasks import find_task
from relational_transformer.training import CLRSTask, Protocol
from tests.lobster.small import small_config as lobster_config
from tests.molecules.small import small_config as qm9_config
from tests.sokoban.small import small_config as sokoban_config
from tests.sokoban.small import write_levels
from tests.training.small import SETTINGS
from tests.training.small import small_config as clrs_config

CPU = torch.device("cpu")
TURNS_BEFORE_LEAVING = 2


class Task(NamedTuple):
    """What can be trained, and how it is scored again; the folder of its data, where they are not generated."""

    kind: str
    config: Any
    evaluate: Callable[[RunFolder], Any]
    data: str | None = None
    variant: str = ""

    @property
    def name(self) -> str:
        return f"{self.kind}{self.variant}"

    def make_trainer(self, folder: RunFolder) -> Trainer:
        return Trainer(find_task(self.kind)(self.config, self.data), folder, CPU)

    def train(self, out: str) -> dict[str, Any]:
        """On, with the data that the run had before."""
        return train_task(find_task(self.kind)(self.config), out, CPU)


def tasks(folder: Path) -> list[Task]:
    """The smallest of each; their data lie in `folder`."""
    place = write_levels(folder / "levels")
    modern = Protocol(
        data="modern", hint_feedback="soft", train_lengths=(4, 5), validation_nodes=5, test_nodes=7,
        evaluation_examples=4, examples=48, validation_interval=12,
    )  # fmt: skip
    settings = replace(SETTINGS, batch_size=3)
    return [
        Task("clrs", clrs_config(), lambda run: CLRSTask.evaluate(run, CPU).scores),
        Task(
            "clrs",
            clrs_config(task="insertion_sort", protocol=modern, settings=settings),
            lambda run: CLRSTask.evaluate(run, CPU).scores,
            variant=" modern",
        ),
        Task("qm9", qm9_config(), lambda run: QM9Task.evaluate(run, CPU).scores),
        Task("lobster", lobster_config("gcn"), lambda run: LobsterTask.evaluate(run, CPU).scores),
        Task(
            "sokoban",
            sokoban_config(place),
            lambda run: sokoban_trained.evaluate_run(run, CPU, sokoban_trained.levels_of_run(run)),
            place,
        ),
    ]


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
    trained = load_trained(find_task(task.kind), RunFolder(path))
    return trained.config, digest(trained.best), trained.good


def evaluate(task: Task, path: Path) -> object:
    return task.evaluate(RunFolder(path))


def score_hints(task: Task, path: Path) -> object:
    """What `rt evaluate --hints` shows."""
    return asdict(evaluate_hints(RunFolder(path), CPU, nodes=4, examples=2))


def draw(task: Task, path: Path) -> object:
    """The page of `rt look`."""
    return make_page(task.config.task, [open_run(path)], nodes=(4,))


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
