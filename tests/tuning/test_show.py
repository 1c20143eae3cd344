"""What a person reads of a search."""

import io

from optuna.trial import TrialState
from rich.console import Console

from relational_transformer.tuning import analyse
from relational_transformer.tuning.show import show
from tests.tuning.studies import add_run, study_with

GRID = {"rate": [0.001, 0.01, 0.1], "mode": ["core", "cat"]}


def shown(study, paper=None, minimum_runs=5):
    console = Console(file=io.StringIO(), width=120)
    show(analyse(study, GRID, minimum_runs), console, "rt on core", paper)
    return console.file.getvalue()


def line_with(text, *parts):
    """The words of the one line that holds all the parts."""
    (line,) = (line for line in text.splitlines() if all(part in line for part in parts))
    return line.split()


def test_an_empty_search_says_so():
    assert "Not converged: no run has finished yet." in shown(study_with(GRID, []))


def test_run_sets_are_listed_with_mean_standard_error_and_runs():
    text = shown(study_with(GRID, [((0.01, "cat"), 0.5), ((0.01, "cat"), 0.7), ((0.1, "core"), 0.25)]))
    assert line_with(text, "the best", "0.6000") == ["0.6000", "0.1000", "2", "the", "best"]
    assert line_with(text, "rate=0.1, mode=core") == ["0.2500", "1", "rate=0.1,", "mode=core"]


def test_unexplored_steps_are_named():
    text = shown(study_with(GRID, [((0.01, "cat"), 0.6), ((0.1, "cat"), 0.5)]))
    assert line_with(text, "rate 0.01 → 0.001") == ["rate", "0.01", "→", "0.001", "unexplored", "0"]
    assert line_with(text, "rate 0.01 → 0.1") == ["rate", "0.01", "→", "0.1", "0.5000", "1"]
    assert "2 of 3 neighbours have no run yet" in text


def test_the_papers_value_stands_beside_the_best():
    text = shown(study_with(GRID, [((0.01, "cat"), 0.6)]), paper={"rate": 0.1, "mode": "cat"})
    assert line_with(text, "rate", "0.001 0.01 0.1")[:3] == ["rate", "0.01", "0.1"]


def test_trials_are_counted_by_what_became_of_them():
    study = study_with(GRID, [((0.01, "cat"), 0.6), ((0.01, "cat"), 0.6)])
    for state in (TrialState.FAIL, TrialState.RUNNING, TrialState.RUNNING):
        add_run(study, GRID, {"rate": 0.1, "mode": "cat"}, state=state)
    assert "2 runs of 1 configurations, 2 under way, 1 failed and not counted" in shown(study)


def test_a_converged_search_says_so():
    runs = [((0.001, "cat"), 0.1), ((0.1, "cat"), 0.1), ((0.01, "core"), 0.1), *[((0.01, "cat"), 0.6)] * 5]
    assert "Converged: every neighbour of the best has been tried" in shown(study_with(GRID, runs))
