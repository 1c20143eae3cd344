"""The selection of an experiment that was asked for."""

from dataclasses import replace

import pytest

from relational_transformer.fleet.adam import Schedule
from relational_transformer.lobster import SETTINGS, LobsterProtocol
from relational_transformer.processors.settings import find_settings
from relational_transformer.sokoban import RECIPES, load_splits
from relational_transformer.sweeps import Selection, cells_of, find_experiment
from relational_transformer.training import PROTOCOLS
from tests.sokoban.small import write_levels


def configs(name: str, **selection):
    return [cell.config for cell in cells_of(find_experiment(name), Selection(**selection))]


def test_the_whole_main_table_has_a_cell_for_every_model_and_task():
    cells = configs("main")
    assert len(cells) == len({(config.task, config.model) for config in cells}) == 210
    assert all(config.protocol == PROTOCOLS["paper"] and config.seeds == tuple(range(20)) for config in cells)


def test_the_two_sizes_of_the_training_set_are_two_cells():
    cells = configs("train_size", tasks=("bellman_ford",), models=("untuned_mpnn",))
    assert [config.protocol.train_examples for config in cells] == [1_000, 10_000]


def test_a_part_has_the_named_tasks_and_models_its_seeds_and_its_examples():
    (config,) = configs("main", tasks=("dfs",), models=("gat",), seeds=3, examples=640, precision="bf16")
    assert (config.task, config.model, config.seeds, config.precision) == ("dfs", "gat", (0, 1, 2), "bf16")
    assert config.protocol.examples == 640


def test_names_may_stand_for_several():
    cells = configs("main", tasks=("core", "bfs"), models=("pgn_combined",))
    assert len(cells) == 18
    assert {config.model for config in cells} == {"pgn", "pgn_masked"}


def test_the_modern_table_is_trained_by_the_modern_protocol_unless_something_else_is_asked_for():
    cells = configs("modern")
    assert len(cells) == 60
    assert all(config.protocol == PROTOCOLS["modern"] and config.seeds == (0, 1, 2) for config in cells)
    assert configs("main", models=("rt",), seeds=3, protocol="modern") == configs("modern", models=("rt",))
    assert all(not config.protocol.is_modern for config in configs("modern", protocol="paper"))


def test_settings_schedules_and_precisions_of_single_tasks_may_be_other_than_usual():
    schedule = {"warmup_steps": 100}
    changes = {"learning_rate": 2e-4, "num_layers": 1, "weight_decay": 0.01}
    asked: dict = {
        "tasks": ("bfs", "minimum"),
        "models": ("rt",),
        "precision": "bf16",
        "precision_of": {"minimum": "tf32"},
    }
    bfs, minimum = configs("modern", changes=changes, schedule=schedule, **asked)
    assert {name: getattr(bfs.settings, name) for name in changes} == changes
    assert bfs.settings == replace(find_settings("rt", modern=True), **changes)
    assert bfs.schedule == Schedule(warmup_steps=100, decay="cosine")
    assert (bfs.precision, minimum.precision) == ("bf16", "tf32")


@pytest.mark.parametrize(
    "changes",
    [{"changes": {"num_layers": 1}}, {"schedule": {"decay": "linear"}}, {"precision_of": {"bfs": "tf32"}}],
)
def test_what_is_of_clrs_alone_is_refused_elsewhere(changes: dict):
    with pytest.raises(ValueError, match="are for CLRS-30 alone"):
        configs("lobster", **changes)


def test_a_precision_of_a_task_that_is_not_trained_is_refused():
    with pytest.raises(ValueError, match="'dfs' has a precision of its own, but is not among the chosen tasks"):
        configs("main", tasks=("bfs",), precision_of={"dfs": "tf32"})


def test_experiments_that_want_the_same_thing_want_it_alike():
    main = configs("main", tasks=("core",), models=("rt",))
    ablation = configs("edge_updates", models=("rt",))
    assert main == [config for task in (c.task for c in main) for config in ablation if config.task == task]


def test_counting_parameters_needs_no_run():
    assert configs("parameters") == []
    assert configs("parameters", seeds=3) == []


def test_lobster_validates_ten_times_however_long_it_trains():
    rt, _, _ = configs("lobster")
    assert rt.protocol == LobsterProtocol()
    (gcn,) = configs("lobster", models=("gcn",), examples=5_000)
    assert (gcn.protocol.examples, gcn.protocol.validation_interval, gcn.settings) == (5_000, 500, SETTINGS["gcn"])


@pytest.mark.parametrize("changes", [{"recipe": "batched"}, {"levels": "somewhere"}])
def test_what_is_sokobans_alone_is_refused_elsewhere(changes: dict):
    with pytest.raises(ValueError, match="--levels and --recipe are for Sokoban"):
        cells_of(find_experiment("lobster"), Selection(**changes))


def test_sokoban_has_a_recipe_and_levels(tmp_path):
    here, there = (write_levels(tmp_path / name) for name in ("here", "there"))
    cells = cells_of(find_experiment("sokoban"), Selection(recipe="batched", levels=here, examples=64_000))
    transformer, rt = (cell.config for cell in cells)
    assert (transformer.model, rt.model, rt.levels) == ("transformer", "rt", load_splits(here, 1_000).identity)
    assert rt.recipe == transformer.recipe == replace(RECIPES["batched"], steps=64_000)
    assert [cell.data for cell in cells] == [here, here]
    assert configs("sokoban", recipe="batched", levels=there, examples=64_000) == [transformer, rt]
    assert [cell.data for cell in cells_of(find_experiment("sokoban"))] == [None, None]


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"tasks": ("bogosort",)}, "has no task 'bogosort'; it has activity_selector, bellman_ford"),
        ({"models": ("mpnn",)}, "has no model 'mpnn'; it has rt, transformer"),
        ({"seeds": 0}, "seeds must be at least 1, got 0"),
        ({"examples": 0}, "examples must be at least 1, got 0"),
    ],
)
def test_what_an_experiment_has_not_is_one_clear_sentence(selection: dict, message: str):
    with pytest.raises(ValueError, match=message):
        configs("transformer", **selection)
