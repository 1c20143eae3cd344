"""Four real processes in one storage, one of them killed in the middle: nothing is lost, nothing is counted twice."""

import multiprocessing

import pytest
from optuna.storages import RDBStorage
from optuna.trial import TrialState

from relational_transformer.tuning import LostTrials, analyse, open_storage
from relational_transformer.tuning.worker import run_trial
from tests.tuning import postgresql, workers

COUNT = 8  # trials of each worker that lives
COUNT_OF_VICTIM = 2  # trials that the victim finishes before the one it is killed in


@pytest.fixture(params=["journal", "sqlite", "postgresql"])
def location(request, tmp_path):
    if request.param == "journal":
        yield str(tmp_path / "study.journal")
    elif request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/study.db"
    elif reason := postgresql.why_not():
        pytest.skip(reason)
    else:
        with postgresql.server() as url:
            yield url


def wait_for(event, process):
    """Until the event is set; a process that ended instead is a failure."""
    while not event.wait(0.1):
        assert process.is_alive(), f"{process.name} ended with {process.exitcode}"


@pytest.fixture
def aftermath(location):
    """The study after three workers have done their trials and a fourth was killed in one; and that trial's number."""
    context = multiprocessing.get_context("forkserver")  # fresh processes, without importing torch in each
    context.set_forkserver_preload([workers.__name__])
    together, resume, stuck, number = context.Barrier(4), context.Event(), context.Event(), context.Value("i", -1)
    victim = context.Process(
        target=workers.run_until_killed, args=(location, 0, COUNT_OF_VICTIM, together, stuck, number), name="victim"
    )
    others = [
        context.Process(target=workers.run_trials, args=(location, worker, COUNT, together, resume), name=f"{worker}")
        for worker in (1, 2, 3)
    ]
    processes = [victim, *others]
    try:
        for process in processes:
            process.start()
        wait_for(stuck, victim)
        victim.kill()
        victim.join()
        resume.set()
        for process in others:
            process.join()
            assert process.exitcode == 0
    finally:
        for process in processes:
            process.kill()
    storage = open_storage(location)
    yield workers.join(storage), number.value
    storage.remove_session()
    if isinstance(storage, RDBStorage):
        storage.engine.dispose()


def test_four_processes_share_a_study_and_one_is_killed(aftermath):
    study, lost = aftermath

    # No trial number is missing or given twice, and no result is lost.
    finished = COUNT_OF_VICTIM + 3 * COUNT
    assert [trial.number for trial in study.trials] == list(range(finished + 1))
    expected = {workers.value_of(0, index) for index in range(COUNT_OF_VICTIM)}
    expected |= {workers.value_of(worker, index) for worker in (1, 2, 3) for index in range(COUNT)}
    complete = [trial for trial in study.trials if trial.state is TrialState.COMPLETE]
    assert len(complete) == finished
    assert {trial.value for trial in complete} == expected

    # The killed worker's trial is still marked as running, but counts for nothing.
    assert study.trials[lost].state is TrialState.RUNNING
    assert analyse(study, workers.GRID).runs == finished

    # It is noticed, once, and fails; the search goes on.
    assert LostTrials(study, grace=-1).fail() == [lost]
    assert LostTrials(study, grace=-1).fail() == []
    assert study.trials[lost].state is TrialState.FAIL
    assert run_trial(study, lambda trial: float(trial.number)).number == finished + 1
    assert analyse(study, workers.GRID).runs == finished
