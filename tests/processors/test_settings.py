"""The paper's hyperparameters, and how they are found."""

import dataclasses

import pytest

from relational_transformer.processors import ABLATIONS, MODERN, PROCESSORS, TUNED, UNTUNED, Settings, find_settings


def test_every_model_names_a_processor_that_exists() -> None:
    for settings in (*TUNED.values(), *UNTUNED.values(), *ABLATIONS.values(), *MODERN.values()):
        assert settings.processor in PROCESSORS


def test_tuned_values_are_those_of_the_papers_table() -> None:
    layers = {name: settings.num_layers for name, settings in TUNED.items()}
    assert layers == {"deep_sets": 2, "gat": 2, "gatv2": 2, "mpnn": 1, "pgn": 1, "pgn_masked": 3, "rt": 3}
    assert [settings.learning_rate for settings in TUNED.values()] == [
        2.5e-4,
        6.3e-4,
        2.5e-4,
        1.6e-3,
        1.6e-3,
        1e-3,
        2.5e-4,
    ]
    assert {settings.batch_size for settings in TUNED.values()} == {4}
    rt = TUNED["rt"]
    assert (rt.num_heads, rt.hidden_size // rt.num_heads, rt.node_hidden_size) == (12, 16, 32)
    assert rt.edge_hidden_sizes == (16, 8)
    assert rt.pointers_from_edges
    assert rt.global_mode == "cat"


def test_an_ablation_changes_what_it_is_called_after_and_no_more() -> None:
    changed = {
        name: {key: value for key, value in vars(settings).items() if value != getattr(TUNED["rt"], key)}
        for name, settings in ABLATIONS.items()
    }
    assert changed == {
        "transformer": {"processor": "transformer", "pointers_from_edges": False},
        "rt_single_layer": {"num_layers": 1},
        "rt_node_pointers": {"pointers_from_edges": False},
        "rt_core": {"global_mode": "core"},
        "rt_no_edge_updates": {"update_edges": False, "pointers_from_edges": False},
    }


def test_triplet_gmpnn_is_trained_as_published() -> None:
    settings = find_settings("triplet_gmpnn")
    assert settings == MODERN["triplet_gmpnn"]
    assert (settings.num_layers, settings.hidden_size, settings.learning_rate) == (1, 128, 1e-3)
    assert (settings.batch_size, settings.gradient_clip, settings.pointers_from_edges) == (32, 1.0, False)


def test_settings_are_found_by_name_and_cannot_be_changed() -> None:
    assert find_settings("rt_core").global_mode == "core"
    assert find_settings("untuned_gatv2") == UNTUNED["gatv2"]
    with pytest.raises(ValueError, match=r"there is no model 'rt_cor'; the models are .*rt_core"):
        find_settings("rt_cor")
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().num_layers = 2  # pyright: ignore[reportAttributeAccessIssue]


def test_pointers_of_edges_are_encoded_and_decoded_in_a_known_way() -> None:
    with pytest.raises(ValueError, match="edge_pointers must be one of averaged, bound, got 'tied'"):
        Settings(edge_pointers="tied")  # pyright: ignore[reportArgumentType]
