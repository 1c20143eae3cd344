"""Four workers of one search, two of them killed in the middle of a run: the search ends with all its runs."""

import multiprocessing
from collections import Counter
from pathlib import Path

import pytest
from optuna.trial import TrialState

from relational_transformer.tuning import load_study
from tests.tuning import workers

TRIALS = 10


@pytest.fixture
def context():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([workers.__name__])
    return context


@pytest.mark.parametrize("location", ["{}/study.journal", "sqlite:///{}/study.db"])
def test_a_search_whose_workers_are_killed_ends_with_all_its_runs_and_no_folder_is_left(tmp_path, context, location):
    location, temporary = location.format(tmp_path), tmp_path / "temporary"
    temporary.mkdir()
    stuck, go_on = context.Queue(), context.Event()
    arguments = (location, TRIALS, str(temporary))
    victims = [context.Process(target=workers.search_until_killed, args=(*arguments, stuck)) for _ in range(2)]
    others = [context.Process(target=workers.search, args=(*arguments, go_on)) for _ in range(2)]
    try:
        for process in (*victims, *others):
            process.start()
        for _ in victims:
            stuck.get(timeout=600)
        for victim in victims:
            victim.kill()
            victim.join()
        go_on.set()
        for process in others:
            process.join()
            assert process.exitcode == 0
    finally:
        for process in (*victims, *others):
            process.kill()
    states = Counter(trial.state for trial in load_study(location, workers.STUDY).trials)
    assert states[TrialState.COMPLETE] == TRIALS
    assert states[TrialState.RUNNING] == 0
    assert list(Path(temporary).iterdir()) == []


def test_started_again_after_all_were_killed_it_trains_at_once(tmp_path, context):
    location, temporary = f"{tmp_path}/study.journal", str(tmp_path)
    stuck, go_on = context.Queue(), context.Event()
    victims = [
        context.Process(target=workers.search_until_killed, args=(location, 2, temporary, stuck)) for _ in range(2)
    ]
    go_on.set()
    try:
        for victim in victims:
            victim.start()
        for _ in victims:
            stuck.get(timeout=600)
    finally:
        for victim in victims:
            victim.kill()
            victim.join()
    again = context.Process(target=workers.search, args=(location, 2, temporary, go_on, False))
    again.start()
    again.join()
    assert again.exitcode == 0  # it never had to wait
    states = [trial.state for trial in load_study(location, workers.STUDY).trials]
    assert states == [TrialState.FAIL] * 2 + [TrialState.COMPLETE] * 2
