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
        ({"learning_rate": float("nan")}, "learning_rate must be a number above 0, got nan"),
    ],
)
def test_impossible_settings_are_named(change: dict, message: str):
    with pytest.raises(ValueError, match=message):
        replace(SETTINGS, **change)


def test_a_configuration_survives_json():
    import json

    config = small_config(seeds=(3, 5))
    assert TrainConfig.from_dict(json.loads(json.dumps(config.as_dict()))) == config


def test_another_kind_of_configuration_is_refused():
    with pytest.raises(ValueError, match="not the configuration of a training run"):
        TrainConfig.from_dict({"model_type": "something else"})
