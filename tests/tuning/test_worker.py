"""One worker: when it stops, what it does with failures, and with trials of workers that died."""

import optuna
import pytest
from optuna.trial import TrialState

from relational_transformer.tuning import GridDescentSampler, LostTrials, suggest, work
from relational_transformer.tuning.worker import run_trial

GRID = {"x": [0, 1, 2, 3, 4]}


@pytest.fixture
def study():
    return optuna.create_study(direction="maximize", sampler=GridDescentSampler(GRID, seed=0))


def hill(trial):
    return -abs(suggest(trial, GRID)["x"] - 3)


def states(study):
    return [trial.state for trial in study.trials]


def test_it_stops_at_the_number_of_runs_of_the_whole_study(study):
    study.optimize(hill, n_trials=3)
    work(study, GRID, hill, trials=5, minimum_runs=100)
    assert len(study.trials) == 5


def test_it_waits_for_the_runs_that_others_have_under_way(study):
    other, waited = study.ask(), []

    def the_other_ends(search):
        waited.append(search.runs)
        suggest(other, GRID)
        study.tell(other, -3.0)

    work(study, GRID, hill, trials=5, minimum_runs=100, wait=the_other_ends)
    assert waited == [4]
    assert states(study) == [TrialState.COMPLETE] * 5


def test_it_takes_over_the_runs_of_those_who_die_meanwhile(study):
    study.ask()
    clock = [0.0]

    def time_passes(search):
        clock[0] += 70.0

    lost = LostTrials(study, grace=100.0, clock=lambda: clock[0])
    work(study, GRID, hill, trials=5, minimum_runs=100, lost=lost, wait=time_passes)
    assert states(study) == [TrialState.FAIL] + [TrialState.COMPLETE] * 5


def test_a_run_that_others_began_at_the_same_time_is_withdrawn(study, monkeypatch):
    ask, other = study.ask, []

    def others_are_faster():
        if not other:
            other.append(ask())
        return ask()

    def the_other_ends(search):
        suggest(other[0], GRID)
        study.tell(other[0], -3.0)

    monkeypatch.setattr(study, "ask", others_are_faster)
    work(study, GRID, hill, trials=1, minimum_runs=100, wait=the_other_ends)
    assert states(study) == [TrialState.COMPLETE, TrialState.FAIL]


def test_it_stops_when_the_search_has_converged(study):
    search = work(study, GRID, hill, trials=1000, minimum_runs=4)
    assert search.converged
    assert search.best is not None
    assert search.configuration(search.best) == {"x": 3}
    assert len(study.trials) < 100


def test_an_error_fails_its_trial_and_ends_the_worker(study):
    def broken(trial):
        raise RuntimeError("no memory left")

    with pytest.raises(RuntimeError, match="no memory left"):
        work(study, GRID, broken, trials=4)
    assert states(study) == [TrialState.FAIL]


def test_an_interrupt_fails_its_trial_too(study):
    def interrupted(trial):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work(study, GRID, interrupted, trials=4)
    assert states(study) == [TrialState.FAIL]


def test_a_score_that_is_not_a_number_fails_the_trial_and_the_worker_goes_on(study):
    scores = iter([float("nan"), 1.0, 2.0])
    work(study, GRID, lambda trial: suggest(trial, GRID) and next(scores), trials=2, minimum_runs=100)
    assert states(study) == [TrialState.FAIL, TrialState.COMPLETE, TrialState.COMPLETE]


def test_a_worker_taken_for_dead_loses_its_trial_and_nothing_else(study):
    def failed_by_others(trial):
        study.tell(trial.number, state=TrialState.FAIL)
        return 1.0

    assert run_trial(study, failed_by_others).state is TrialState.FAIL


def test_a_worker_taken_for_dead_goes_on_with_the_next_trial(study):
    def failed_by_others(trial):
        configuration = suggest(trial, GRID)
        if trial.number == 0:
            study.tell(trial.number, state=TrialState.FAIL)
        trial.set_user_attr("score of bfs", 1.0)
        return -abs(configuration["x"] - 3)

    work(study, GRID, failed_by_others, trials=3, minimum_runs=100)
    assert states(study) == [TrialState.FAIL] + [TrialState.COMPLETE] * 3


def test_it_reports_after_every_trial(study):
    seen = []
    work(
        study,
        GRID,
        hill,
        trials=3,
        minimum_runs=100,
        report=lambda trial, search: seen.append((trial.number, search.runs)),
    )
    assert seen == [(0, 1), (1, 2), (2, 3)]
