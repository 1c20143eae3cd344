"""Where a search stands: ranking, unexplored neighbours, stability and convergence."""

from optuna.trial import TrialState

from relational_transformer.tuning import analyse
from tests.tuning.studies import add_run, study_with

GRID = {"x": [0, 1, 2], "y": ["a", "b"]}
AROUND = [((0, "a"), 1.0), ((2, "a"), 1.0), ((1, "b"), 1.0)]  # the three neighbours of (1, a)


def test_an_empty_study_has_no_best_and_has_not_converged():
    search = analyse(study_with(GRID, []), GRID)
    assert search.best is None
    assert search.neighbourhood == ()
    assert search.missing == ("no run has finished yet",)


def test_neighbours_of_the_best_without_a_finished_run_are_unexplored():
    study = study_with(GRID, [((1, "a"), 5.0), ((0, "a"), 1.0)])
    add_run(study, GRID, {"x": 2, "y": "a"}, state=TrialState.RUNNING)
    add_run(study, GRID, {"x": 1, "y": "b"}, state=TrialState.FAIL)
    search = analyse(study, GRID)
    assert search.best is not None
    assert search.configuration(search.best) == {"x": 1, "y": "a"}
    assert [search.configuration(place) for place in search.unexplored] == [{"x": 2, "y": "a"}, {"x": 1, "y": "b"}]
    assert search.trials == {TrialState.COMPLETE: 2, TrialState.RUNNING: 1, TrialState.FAIL: 1}
    assert search.runs == 2


def test_the_count_of_stable_runs_begins_anew_when_another_configuration_takes_the_lead():
    runs = [((1, "a"), 5.0), ((0, "a"), 1.0), ((1, "b"), 7.0), ((1, "b"), 6.9), ((0, "b"), 2.0)]
    assert [analyse(study_with(GRID, runs[:n]), GRID).stable_for for n in range(6)] == [0, 1, 2, 1, 2, 3]


def test_a_best_that_loses_by_its_own_new_run_hands_over_the_lead():
    search = analyse(study_with(GRID, [((0, "b"), 4.0), ((1, "a"), 5.0), ((1, "a"), 1.0)]), GRID)
    assert search.configuration(search.ranking[0]) == {"x": 0, "y": "b"}
    assert search.stable_for == 1


def test_converged_means_neighbours_tried_the_best_run_often_enough_and_stable():
    study = study_with(GRID, [*AROUND, *[((1, "a"), 5.0)] * 5])
    assert analyse(study, GRID, minimum_runs=5).converged


def test_too_few_runs_of_the_best_is_not_converged():
    search = analyse(study_with(GRID, [*AROUND, *[((1, "a"), 5.0)] * 4]), GRID, minimum_runs=5)
    assert search.missing == ("the best configuration has 4 of 5 runs",)


def test_an_unexplored_neighbour_is_not_converged():
    search = analyse(study_with(GRID, [*AROUND[:2], *[((1, "a"), 5.0)] * 5]), GRID, minimum_runs=5)
    assert search.missing == ("1 of 3 neighbours have no run yet",)


def test_a_best_that_has_just_changed_is_not_converged():
    runs = [*AROUND, *[((1, "a"), 5.0)] * 4, *[((0, "b"), 6.0)] * 2, ((1, "a"), 12.0)]
    search = analyse(study_with(GRID, runs), GRID, minimum_runs=5)
    assert search.missing == ("it has been the best for 1 of 4 runs",)


def test_with_minimisation_the_ranking_is_turned_round():
    search = analyse(study_with(GRID, [((1, "a"), 5.0), ((0, "a"), 1.0)], direction="minimize"), GRID)
    assert [run_set.mean for run_set in search.ranking] == [1.0, 5.0]
