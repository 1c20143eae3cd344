import json
from dataclasses import replace

import pytest

from relational_transformer.training import TrainConfig
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
