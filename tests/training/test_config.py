import json
from dataclasses import replace

import pytest

from relational_transformer.fleet.fleet import consecutive_seeds
from relational_transformer.training import Protocol, TrainConfig
from tests.training.small import SETTINGS, small_config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"num_heads": 0}, "num_heads must be at least 1, got 0"),
        ({"num_layers": 0}, "num_layers must be at least 1, got 0"),
        ({"gradient_clip": 0.0}, "gradient_clip must be a number above 0, got 0.0"),
        ({"gradient_clip": float("inf")}, "gradient_clip must be a number above 0, got inf"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number above 0, got nan"),
    ],
)
def test_impossible_settings_are_named(change: dict, message: str):
    with pytest.raises(ValueError, match=message):
        replace(SETTINGS, **change)


@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_configuration_survives_json(clip: float | None):
    config = small_config(seeds=(3, 5), settings=replace(SETTINGS, gradient_clip=clip))
    assert TrainConfig.from_dict(json.loads(json.dumps(config.as_dict()))) == config


def test_gradients_that_are_not_clipped_are_not_mentioned():
    """So a run from before clipping has the same configuration, and goes on."""
    assert "gradient_clip" not in small_config().as_dict()["settings"]


def test_another_kind_of_configuration_is_refused():
    with pytest.raises(ValueError, match="not the configuration of a training run"):
        TrainConfig.from_dict({"model_type": "something else"})


def test_seeds_are_counted_only_after_their_number_is_known_to_be_sensible():
    assert consecutive_seeds(3, 2) == (3, 4)
    assert consecutive_seeds(2**63 - 1, 1) == (2**63 - 1,)
    for first, count, message in (
        (0, 10**30, r"seeds must be at most 10,000, got 1000000000000000000000000000000"),
        (0, 0, "seeds must be at least 1, got 0"),
        (-1, 1, "first-seed must be at least 0, got -1"),
        (2**63, 1, "first-seed must be at most 9,223,372,036,854,775,807, got 9223372036854775808"),
    ):
        with pytest.raises(ValueError, match=message):
            consecutive_seeds(first, count)


@pytest.mark.parametrize("name", ["examples", "train_nodes", "test_data_seed", "validation_interval"])
def test_a_protocol_has_no_number_that_is_too_large_to_be_meant(name: str):
    with pytest.raises(ValueError, match=f"{name.replace('_', '-')} must be at most"):
        Protocol(**{name: 10**30})
