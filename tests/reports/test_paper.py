"""The paper's numbers: complete, and in agreement with one another but where the data file says so."""

from collections import Counter
from dataclasses import asdict

import pytest

from relational_transformer.clrs import ALGORITHMS
from relational_transformer.clrs.classes import CLASSES, CORE_TASKS
from relational_transformer.processors.settings import ABLATIONS, TUNED, UNTUNED
from relational_transformer.reports.paper import (
    contradictions,
    numbers,
    published,
    published_average,
    published_class_average,
)
from relational_transformer.reports.results.variants import BASELINES, MODELS

PRINTED = 0.0051
"""How far a number rounded to two places may be from the truth."""


def mean(values) -> float:
    values = list(values)
    return sum(values) / len(values)


def test_every_task_and_model_has_a_mean_and_a_deviation():
    main = numbers()["main"]
    assert sorted(main["mean"]) == sorted(main["deviation"]) == sorted(ALGORITHMS)
    for task in ALGORITHMS:
        assert set(main["mean"][task]) == {*main["deviation"][task], "pgn_combined"} == set(main["average"])
    assert tuple(main["average"]) == MODELS


def test_averages_over_tasks_come_out_as_the_paper_prints_them():
    main = numbers()["main"]
    for model, average in main["average"].items():
        assert mean(scores[model] for scores in main["mean"].values()) == pytest.approx(average, abs=PRINTED), model


def test_deviations_over_all_runs_follow_from_those_of_the_tasks():
    """The variance of all runs is that of the task means and the mean of the tasks' own: these are deviations."""
    main = numbers()["main"]
    for model, printed in main["deviation_over_all_runs"].items():
        centre = mean(scores[model] for scores in main["mean"].values())
        between = mean((scores[model] - centre) ** 2 for scores in main["mean"].values())
        within = mean(row[model] ** 2 for row in main["deviation"].values())
        assert (between + within) ** 0.5 == pytest.approx(printed, abs=0.1), model


def test_the_combined_pgn_is_the_better_of_the_two_on_every_task():
    for scores in numbers()["main"]["mean"].values():
        assert scores["pgn_combined"] == max(scores["pgn"], scores["pgn_masked"])


def test_classes_average_their_tasks_but_for_two_numbers_that_the_notes_name():
    main, classes = numbers()["main"]["mean"], numbers()["classes"]["mean"]
    wrong = {
        (group.value, model): classes[group.value][model]
        for group, tasks in CLASSES.items()
        for model in MODELS
        if mean(main[task][model] for task in tasks) != pytest.approx(classes[group.value][model], abs=PRINTED)
    }
    assert wrong == {("geometry", "deep_sets"): 65.47, ("search", "mpnn"): 43.94}
    assert all(any(str(printed) in note for note in contradictions("classes")) for printed in wrong.values())


def test_the_average_over_classes_comes_out_and_pgn_c_is_printed_twice_differently():
    classes = numbers()["classes"]
    for model, printed in classes["average"].items():
        assert mean(row[model] for row in classes["mean"].values()) == pytest.approx(printed, abs=PRINTED), model
    improved = numbers()["published_baselines"]["classes"]["improved"]["mean"]
    assert {model: value for model, value in improved.items() if value != classes["average"][model]} == {
        "pgn_combined": 52.82
    }
    assert classes["average"]["pgn_combined"] == 52.83
    assert any("52.82" in note and "52.83" in note for note in contradictions("classes"))


@pytest.mark.parametrize("name", list(numbers()["ablations"]))
def test_averages_of_ablations_come_out_but_for_one_that_the_notes_name(name: str):
    ablation = numbers()["ablations"][name]
    tasks = tuple(ablation["mean"])
    assert tasks == tuple(ablation["deviation"])
    assert ablation["model"] in ABLATIONS
    ours = mean(published(task, "rt").mean for task in tasks)
    assert ours == pytest.approx(ablation["average"]["rt"], abs=PRINTED)
    variant = mean(ablation["mean"].values())
    if name == "pointers":
        assert (round(variant, 3), ablation["average"][ablation["model"]]) == (81.015, 81.0)
        assert any("81.00" in note and "81.015" in note for note in contradictions(name))
    else:
        assert variant == pytest.approx(ablation["average"][ablation["model"]], abs=PRINTED)
    if name != "core_node":
        assert tasks == CORE_TASKS


def test_tables_of_tuning_and_of_training_sets_agree_with_each_other_and_with_the_main_table():
    tuning, sizes, published_again = numbers()["tuning"], numbers()["train_size"], numbers()["published_baselines"]
    assert tuning["untuned"] == sizes["10000"]
    assert tuple(tuning["tuned"]) == BASELINES
    for model, printed in tuning["tuned"].items():
        core = mean(numbers()["main"]["mean"][task][model] for task in CORE_TASKS)
        assert core == pytest.approx(printed, abs=PRINTED), model
    reproduced = published_again["core_tasks"]["reproduced"]["mean"]
    assert {model: sizes["1000"][model] for model in reproduced} == reproduced


def test_what_the_text_claims_follows_from_the_tables():
    main, text = numbers()["main"]["mean"], numbers()["text"]
    models = [model for model in MODELS if model != "pgn_combined"]
    assert Counter(max(models, key=scores.__getitem__) for scores in main.values()) == text["wins"]
    classes = numbers()["classes"]["mean"].values()
    assert sum(max(models, key=scores.__getitem__) == "rt" for scores in classes) == text["class_wins_of_rt"]
    averages = {name: ablation["average"] for name, ablation in numbers()["ablations"].items()}
    assert averages["single_layer"]["rt_single_layer"] - numbers()["tuning"]["tuned"]["mpnn"] == pytest.approx(
        text["single_layer_above_mpnn_on_core_tasks"]
    )
    assert averages["edge_updates"]["rt_no_edge_updates"] - averages["transformer"]["transformer"] == pytest.approx(
        text["no_edge_updates_above_transformer"]
    )


def test_printed_hyperparameters_are_the_settings_that_are_run():
    printed = dict(numbers()["hyperparameters"])
    printed.pop("table")
    assert set(printed) == set(TUNED)
    for model, values in printed.items():
        settings = {**asdict(TUNED[model]), "edge_hidden_sizes": list(TUNED[model].edge_hidden_sizes)}
        if "head_size" in values:
            settings["head_size"] = TUNED[model].hidden_size // TUNED[model].num_heads
        assert {name: settings[name] for name in values} == values, model


def test_sizes_and_speeds_are_there_for_every_model_and_task_types_add_up():
    for table in ("parameters", "speed"):
        assert set(numbers()[table]["tuned"]) == set(TUNED)
        assert set(numbers()[table]["untuned"]) == set(UNTUNED)
    types = numbers()["task_types"]
    assert set(types["types"]) == set(ALGORITHMS)
    counted = Counter(letter for letters in types["types"].values() for letter in letters)
    assert counted == types["total"]


def test_what_the_paper_does_not_say_is_none():
    assert published("bellman_ford", "my_own") is None
    assert published("bfs", "rt_single_layer") is None  # not one of the core tasks
    assert published("bellman_ford", "pgn_combined").deviation is None


def test_a_deviation_printed_as_zero_is_one_below_half_of_the_last_place():
    core = published("kmp_matcher", "rt_core")
    assert core.deviation == 0.0
    assert core.error == pytest.approx(0.05 / 20**0.5)


def test_averages_are_as_printed_and_as_sure_as_their_tasks():
    average = published_average(81.0, CORE_TASKS, "rt_node_pointers")
    assert (average.mean, average.deviation) == (81.0, None)
    errors = [published(task, "rt_node_pointers").error for task in CORE_TASKS]
    assert average.error == pytest.approx(sum(error**2 for error in errors) ** 0.5 / 8)
    assert published_class_average("rt").mean == 66.6
    assert published_class_average("pgn_combined").error is None
