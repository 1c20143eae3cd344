import pytest

from relational_transformer.clrs import ALGORITHMS
from relational_transformer.reports.paper import numbers, published


def test_every_task_and_model_has_a_mean_and_a_deviation():
    main = numbers()["main"]
    assert sorted(main["mean"]) == sorted(main["deviation"]) == sorted(ALGORITHMS)
    for task in ALGORITHMS:
        assert set(main["mean"][task]) == {*main["deviation"][task], "pgn_combined"} == set(main["average"])


def test_averages_come_out_as_the_paper_prints_them():
    main = numbers()["main"]
    for model, average in main["average"].items():
        mean = sum(scores[model] for scores in main["mean"].values()) / len(ALGORITHMS)
        assert mean == pytest.approx(average, abs=0.006), model


def test_the_combined_pgn_is_the_better_of_the_two_on_every_task():
    for scores in numbers()["main"]["mean"].values():
        assert scores["pgn_combined"] == max(scores["pgn"], scores["pgn_masked"])


def test_what_the_paper_does_not_say_is_none():
    assert published("bellman_ford", "rt_single_layer") is None
    assert published("bellman_ford", "pgn_combined").deviation is None
