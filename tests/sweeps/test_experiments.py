"""The paper's experiments as data."""

import pytest

from relational_transformer.clrs import ALGORITHMS, CORE_TASKS
from relational_transformer.processors.settings import find_settings
from relational_transformer.sweeps import EXPERIMENTS, find_experiment

CLRS = {name: experiment for name, experiment in EXPERIMENTS.items() if set(experiment.tasks) <= set(ALGORITHMS)}


def test_every_experiment_is_there():
    assert list(EXPERIMENTS) == [
        "main",
        "classes",
        "transformer",
        "single_layer",
        "pointers",
        "core_node",
        "edge_updates",
        "train_size",
        "untuned",
        "published_baselines",
        "parameters",
        "speed",
        "modern",
        "lobster",
        "sokoban",
        "qm9",
    ]


def test_the_main_table_is_seven_models_on_thirty_tasks_by_twenty_seeds():
    main = find_experiment("main")
    assert (len(main.models), len(main.tasks), main.seeds) == (7, 30, 20)


@pytest.mark.parametrize("name", CLRS)
def test_every_model_is_known(name: str):
    for model in CLRS[name].models:
        find_settings(model)


@pytest.mark.parametrize("name", ["transformer", "single_layer", "pointers", "edge_updates", "untuned", "train_size"])
def test_ablations_are_made_on_the_core_tasks(name: str):
    assert find_experiment(name).tasks == CORE_TASKS


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("transformer", "processor", "transformer"),
        ("single_layer", "num_layers", 1),
        ("pointers", "pointers_from_edges", False),
        ("core_node", "global_mode", "core"),
        ("edge_updates", "update_edges", False),
    ],
)
def test_an_ablation_compares_rt_with_what_lacks_one_thing(name: str, setting: str, value):
    whole, ablated = find_experiment(name).models
    assert whole == "rt"
    assert getattr(find_settings(ablated), setting) == value
    assert getattr(find_settings("rt"), setting) != value


def test_a_wrong_name_lists_the_right_ones():
    with pytest.raises(ValueError, match="there is no experiment 'mian'; the experiments are main, classes"):
        find_experiment("mian")
