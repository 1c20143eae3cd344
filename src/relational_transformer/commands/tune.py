"""`rt tune`: search hyperparameters by Distributed Grid Descent, with any number of workers."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Literal

import optuna
import tyro
from optuna import Study
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console
from rich.progress import Progress

from relational_transformer.bounds import check_bounds
from relational_transformer.clrs import ALGORITHMS, CORE_TASKS
from relational_transformer.fleet.precision import default_device, find_device
from relational_transformer.reports.comparison import compare
from relational_transformer.reports.results.archive import Archive
from relational_transformer.reports.results.measured import read_results
from relational_transformer.sweeps import plan
from relational_transformer.sweeps.cells import Cell
from relational_transformer.sweeps.engines import EngineOptions, check_options, refuse
from relational_transformer.sweeps.experiments import PAPER_SEEDS
from relational_transformer.training import PROTOCOLS
from relational_transformer.tuning import (
    Grid,
    GridDescentSampler,
    Objective,
    Search,
    analyse,
    configuration_of,
    load_study,
    open_storage,
    open_study,
    work,
)
from relational_transformer.tuning.grids import find_grid
from relational_transformer.tuning.show import format_value, show
from relational_transformer.tuning.storages import database_errors, one_sentence
from relational_transformer.tuning.training import TUNING_PROTOCOL, TaskTraining
from relational_transformer.tuning.winner import winner_configs
from relational_transformer.tuning.worker import LOOK_SECONDS
from relational_transformer.tuning.workplace import workplace

from .terminal.sweeps import carry_out

BOUNDS = {
    "trials": (1, 1_000_000),
    "minimum_runs": (1, 1_000_000),
    "seeds": (1, 10_000),
    "examples": (1, 10**12),
    "evaluation_examples": (0, 10**9),
    "winner_seeds": (1, 10_000),
    "winner_examples": (1, 10**12),
}
"""The smallest and the largest valid value of each option."""


@dataclass(frozen=True)
class TuneArguments:
    """Search the paper's grid of hyperparameters of a model. A trial trains one configuration on all --tasks; its score
    is the mean of their test scores, from 0 to 1, on data that no other trial uses.

    Start the command once or fifty times, on one machine or many: workers with the same --storage work on the same
    search. A killed worker loses only its current trial, which another worker runs again. A worker ends when the search
    ends.

    The score of the best configuration is biased, because it was selected by that score. Use --winner afterwards: it
    trains fresh seeds of the best configuration by the paper's whole protocol on the canonical data, and resumes after
    it was killed.
    """

    model: Annotated[str, tyro.conf.Positional] = "rt"
    """rt, deep_sets, gat, gatv2, mpnn, pgn, pgn_masked, transformer or rt_single_layer."""
    tasks: tuple[str, ...] = ("core",)
    """The algorithms that every trial trains on; core is the paper's eight."""
    trials: int = 500
    """The number of trials of the whole search, by all workers. It ends earlier if it has converged."""
    storage: str = "runs/tuning.journal"
    """Where the search is stored: a journal file, or a database (sqlite:///tuning.db, postgresql://user@host/name)."""
    study: str | None = None
    """The name of the search within the storage; by default the model and its tasks."""
    show: bool = False
    """Print the state of the search, and train nothing."""
    start: Literal["random", "paper"] = "random"
    """The configurations of the first trials: random ones, or the paper's tuned values and their neighbours on the
    grid."""
    examples: int = TUNING_PROTOCOL.examples
    """Examples of each task that a trial trains on."""
    evaluation_examples: int = TUNING_PROTOCOL.minimum_evaluation_examples
    """The least number of examples of validation and test sets."""
    seeds: int = 1
    """The number of seeds of a trial; the mean of their scores counts."""
    minimum_runs: int = 5
    """The search has converged only if the best configuration has at least this many runs."""
    winner: bool = False
    """Do not search; train fresh runs of the best configuration."""
    winner_seeds: int = PAPER_SEEDS
    """With --winner: the number of seeds on each task."""
    winner_examples: int = PROTOCOLS["paper"].examples
    """With --winner: examples that each seed trains on."""
    out: Path = Path("runs/winners")
    """With --winner: the folder of its runs."""
    where: Annotated[EngineOptions, tyro.conf.arg(name="engine")] = field(default_factory=EngineOptions)
    """With --winner: where its runs are trained. A search uses --device alone."""


def run(arguments: TuneArguments) -> None:
    """Work on the search until it has converged or has all its trials, or only read it. Then print its state."""
    if not arguments.winner:
        others = {one.name for one in fields(EngineOptions)} - {"device"}
        refuse(arguments.where, others, "without --winner")
    elif arguments.show:
        raise ValueError("--show trains nothing, --winner trains: give one of them")
    else:
        check_options(arguments.where)
    check_bounds(arguments, BOUNDS)
    grid = find_grid(arguments.model)
    tasks = find_tasks(arguments.tasks)
    console = Console()
    if arguments.show or arguments.winner:
        study = load_study(arguments.storage, study_name(arguments, tasks))
    else:
        study = search(arguments, tasks, grid, console)
    with one_sentence(arguments.storage):
        state = analyse(study, grid, arguments.minimum_runs)
    show(state, console, study.study_name, configuration_of(arguments.model))
    if arguments.winner:
        train_winner(arguments, tasks, state)


def search(arguments: TuneArguments, tasks: tuple[str, ...], grid: Grid, console: Console) -> Study:
    """Work on the search until it ends."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    protocol = replace(
        TUNING_PROTOCOL, examples=arguments.examples, minimum_evaluation_examples=arguments.evaluation_examples
    )
    device = str(find_device(default_device() if arguments.where.device == "auto" else arguments.where.device))
    how_trials_run = {
        "model": arguments.model,
        "tasks": tasks,
        "examples": protocol.examples,
        "minimum_evaluation_examples": protocol.minimum_evaluation_examples,
        "seeds": arguments.seeds,
    }
    sampler = GridDescentSampler(grid, configuration_of(arguments.model) if arguments.start == "paper" else None)
    with one_sentence(arguments.storage):
        study = open_study(open_storage(arguments.storage), study_name(arguments, tasks), how_trials_run, sampler)
    with database_errors(arguments.storage), workplace() as here, Progress(console=console, transient=True) as progress:
        bars = {task: progress.add_task(task, total=protocol.examples) for task in tasks}

        def watch(task: str, examples: int) -> None:
            progress.update(bars[task], completed=examples)

        def report(trial: FrozenTrial, state: Search) -> None:
            progress.console.print(describe(trial, state), highlight=False, markup=False, soft_wrap=True)

        train = TaskTraining(arguments.model, tasks, protocol, arguments.seeds, device, watch, here.folder)
        work(
            study,
            grid,
            Objective(grid, train),
            trials=arguments.trials,
            minimum_runs=arguments.minimum_runs,
            report=report,
            claim=here.claim,
            wait=Waiting(progress.console),
        )
    return study


class Waiting:
    """Waits for the trials of other workers, and prints once that it does."""

    def __init__(self, console: Console, pause: Callable[[], None] = lambda: time.sleep(LOOK_SECONDS)) -> None:
        self._console = console
        self._pause = pause
        self._said = -1

    def __call__(self, state: Search) -> None:
        if state.runs != self._said:
            self._said = state.runs
            others = state.trials[TrialState.RUNNING]
            self._console.print(f"waiting for {others} trials of other workers, to run one again if its worker dies")
        self._pause()


def train_winner(arguments: TuneArguments, tasks: tuple[str, ...], state: Search) -> None:
    """Train fresh seeds of the best configuration on every task, and print their scores."""
    protocol = replace(PROTOCOLS["paper"], examples=arguments.winner_examples)
    seeds = tuple(range(arguments.winner_seeds))
    configs = winner_configs(state, arguments.model, tasks, protocol, seeds)
    runs = plan(arguments.out, [Cell("clrs", config) for config in configs], seeds_together=PAPER_SEEDS)
    outcome = carry_out(runs, arguments.where)
    groups = dict.fromkeys(run.folder.parent for run in runs)
    print(compare(Archive(result for group in groups for result in read_results(group))), end="")
    if not outcome.is_complete:
        sys.exit(1)


def describe(trial: FrozenTrial, state: Search) -> str:
    """The line that is printed for a trial that has ended."""
    score = "failed" if trial.value is None else f"{trial.value:.4f}"
    configuration = " ".join(f"{name}={format_value(value)}" for name, value in trial.params.items())
    best = "" if state.best is None else f"; best {state.best.mean:.4f}, mean of {state.best.count}"
    return f"trial {trial.number}: {score} with {configuration}{best}"


def find_tasks(names: tuple[str, ...]) -> tuple[str, ...]:
    """The algorithms of these names, with `core` expanded."""
    tasks = tuple(dict.fromkeys(task for name in names for task in (CORE_TASKS if name == "core" else (name,))))
    for task in tasks:
        if task not in ALGORITHMS:
            raise ValueError(f"there is no task {task!r}; the tasks are core, {', '.join(ALGORITHMS)}")
    if not tasks:
        raise ValueError("at least one task is needed, got none")
    return tasks


def study_name(arguments: TuneArguments, tasks: tuple[str, ...]) -> str:
    """The name of the search: --study, or the model and its tasks."""
    return arguments.study or f"{arguments.model} on {'core' if tasks == CORE_TASKS else ', '.join(tasks)}"
