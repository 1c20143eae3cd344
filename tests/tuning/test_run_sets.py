"""Run sets: which trials count, their means and standard errors, and who is best."""

import pytest
from optuna.trial import TrialState

from relational_transformer.tuning.run_sets import RunSet, gather_run_sets, rank
from tests.tuning.studies import add_run, study_with

GRID = {"x": [0, 1, 2], "y": ["a", "b"]}


def test_runs_of_one_configuration_make_one_set():
    study = study_with(GRID, [((0, "a"), 1.0), ((1, "a"), 5.0), ((0, "a"), 3.0)])
    assert gather_run_sets(study.trials, GRID) == {
        (0, 0): RunSet((0, 0), (1.0, 3.0), newest=2),
        (1, 0): RunSet((1, 0), (5.0,), newest=1),
    }


def test_mean_and_standard_error_of_the_mean():
    run_set = RunSet((0, 0), (1.0, 2.0, 3.0, 6.0), newest=3)
    assert run_set.mean == 3.0
    assert run_set.standard_error == pytest.approx((14 / 3) ** 0.5 / 2)


def test_a_single_run_has_no_standard_error():
    assert RunSet((0, 0), (1.0,), newest=0).standard_error is None


def test_only_completed_trials_count():
    study = study_with(GRID, [((0, "a"), 1.0)])
    for state in (TrialState.FAIL, TrialState.RUNNING, TrialState.WAITING):
        add_run(study, GRID, {"x": 0, "y": "a"}, state=state)
    add_run(study, GRID, {"x": 0, "y": "a"}, 9.0, state=TrialState.PRUNED)
    assert [run_set.scores for run_set in gather_run_sets(study.trials, GRID).values()] == [(1.0,)]


def test_trials_beside_the_grid_are_left_out():
    study = study_with(GRID, [((0, "a"), 1.0)])
    add_run(study, {"x": [7]}, {"x": 7}, 9.0)
    assert list(gather_run_sets(study.trials, GRID)) == [(0, 0)]


def test_the_best_mean_comes_first_whichever_way_is_better():
    study = study_with(GRID, [((0, "a"), 0.0), ((0, "a"), 10.0), ((1, "a"), 6.0)])
    run_sets = gather_run_sets(study.trials, GRID)
    assert [run_set.position for run_set in rank(run_sets, maximize=True)] == [(1, 0), (0, 0)]
    assert [run_set.position for run_set in rank(run_sets, maximize=False)] == [(0, 0), (1, 0)]


@pytest.mark.parametrize("maximize", [True, False])
def test_of_equal_means_the_one_run_last_comes_first(maximize):
    study = study_with(GRID, [((1, "a"), 2.0), ((0, "a"), 2.0), ((1, "a"), 2.0)])
    assert rank(gather_run_sets(study.trials, GRID), maximize)[0].position == (1, 0)
