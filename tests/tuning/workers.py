"""A worker process for the concurrency tests. It is imported by fresh interpreters, so it holds no tests."""

import tempfile
import time
from pathlib import Path

import optuna
from optuna.storages import BaseStorage

from relational_transformer.tuning import GridDescentSampler, open_storage, open_study, suggest
from relational_transformer.tuning.storages.journal_lock import locked
from relational_transformer.tuning.worker import run_trial, work
from relational_transformer.tuning.workplace import workplace

GRID = {"x": list(range(7)), "y": list(range(6)), "z": list(range(5))}
STUDY = "shared"


def value_of(worker: int, index: int) -> float:
    """A score that tells who ran the trial and which of its trials it was."""
    return 1000.0 * worker + index


def join(storage: BaseStorage) -> optuna.Study:
    return open_study(storage, STUDY, {"purpose": "test"}, GridDescentSampler(GRID))


def run_trials(location: str, worker: int, count: int, together, resume) -> None:
    """`count` trials; all workers open the storage together, and do the second half once `resume` is set."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    together.wait()
    study = join(open_storage(location))
    for index in range(count):
        if index == count // 2:
            resume.wait()
        run_trial(study, lambda trial, index=index: suggest(trial, GRID) and value_of(worker, index))


def run_until_killed(location: str, worker: int, count: int, together, stuck, number) -> None:
    """`count` trials, then one that never ends: says its number, and is killed in it."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    together.wait()
    study = join(open_storage(location))
    for index in range(count):
        run_trial(study, lambda trial, index=index: suggest(trial, GRID) and value_of(worker, index))

    def never_ends(trial):
        suggest(trial, GRID)
        number.value = trial.number
        stuck.set()
        time.sleep(3600)

    run_trial(study, never_ends, interval=0.05)


def search(location: str, trials: int, temporary: str, go_on, may_wait: bool = True) -> None:
    """A worker to the end of the search, as `rt tune` is one; its first run lasts until `go_on` is set."""

    def objective(trial):
        suggest(trial, GRID)
        go_on.wait()
        return float(trial.number)

    def look_again(search):
        assert may_wait
        time.sleep(0.01)

    _work(location, trials, temporary, objective, look_again)


def search_until_killed(location: str, trials: int, temporary: str, stuck) -> None:
    """A worker that says so when it is in its first run, which never ends."""

    def objective(trial):
        suggest(trial, GRID)
        stuck.put(trial.number)
        time.sleep(3600)
        raise AssertionError("nobody killed it")

    _work(location, trials, temporary, objective, lambda search: time.sleep(0.01))


def _work(location, trials, temporary, objective, wait) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    tempfile.tempdir = temporary
    study = join(open_storage(location))
    with workplace() as here:
        work(study, GRID, objective, trials=trials, minimum_runs=100, claim=here.claim, wait=wait)


def take_a_workplace(folder: str, sender) -> None:
    """Take a workplace below `folder`, begin a run in it, send the claim, and wait for the end."""
    tempfile.tempdir = folder
    with workplace() as here:
        (here.folder / "run").mkdir()
        (here.folder / "run" / "metrics.jsonl").write_text("{}")
        sender.send(here.claim)
        time.sleep(3600)


def hold_the_journal(path: str, holding) -> None:
    """Take the lock of a journal, say so, and wait for the end."""
    with locked(Path(path), writing=True):
        holding.set()
        time.sleep(3600)
