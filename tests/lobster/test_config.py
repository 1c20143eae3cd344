"""Configurations: the paper's numbers, what is refused, and the way through JSON."""

import json
from dataclasses import replace

import pytest

from relational_transformer.lobster import SETTINGS, LobsterConfig, LobsterProtocol, RelationalSettings
from relational_transformer.lobster.settings import ModelName


def test_the_defaults_are_the_papers():
    rt = SETTINGS["rt"]
    assert isinstance(rt, RelationalSettings)
    assert (rt.num_layers, rt.learning_rate, rt.gradient_clip, rt.batch_size) == (30, 6.3e-5, 128.0, 32)
    assert (rt.num_heads, rt.head_size, rt.node_size, rt.node_hidden_size) == (8, 28, 224, 12)
    assert (rt.edge_size, rt.edge_hidden_sizes, rt.output_size) == (128, (32, 8), 180)
    for name in ("gcn", "gat"):
        settings = SETTINGS[name]
        assert (settings.num_layers, settings.learning_rate, settings.gradient_clip) == (30, 1e-3, None)
    protocol = LobsterProtocol()
    assert (protocol.examples, protocol.train_examples, protocol.test_size) == (2_000_000, 10_000, 100)
    assert (protocol.smallest_size, protocol.end_size, protocol.weighted) == (4, 34, False)


@pytest.mark.parametrize("model", SETTINGS)
def test_a_configuration_survives_json(model: ModelName):
    config = LobsterConfig(model, SETTINGS[model], LobsterProtocol(weighted=True), (3, 1))
    assert LobsterConfig.from_dict(json.loads(json.dumps(config.as_dict()))) == config
    assert config.as_dict()["task"] == config.task == "lobster"


def test_a_configuration_from_before_there_was_a_choice_of_attention_is_that_of_attention_to_all():
    config = LobsterConfig("rt", SETTINGS["rt"], LobsterProtocol(), (0,))
    assert "attention" not in config.as_dict()["settings"]
    along_edges = replace(config, settings=RelationalSettings(attention="edges"))
    assert along_edges.as_dict()["settings"]["attention"] == "edges"
    assert LobsterConfig.from_dict(along_edges.as_dict()) == along_edges != config


def test_what_cannot_be_is_refused_in_one_sentence():
    rt, protocol = SETTINGS["rt"], LobsterProtocol()
    with pytest.raises(ValueError, match="there is no lobster model 'gin'; the models are rt, gcn, gat"):
        LobsterConfig("gin", rt, protocol, (0,))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="gcn needs BaselineSettings"):
        LobsterConfig("gcn", rt, protocol, (0,))
    with pytest.raises(ValueError, match="at least one seed"):
        LobsterConfig("rt", rt, protocol, ())
    with pytest.raises(ValueError, match=r"different numbers from 0 to 2\^63 - 1, got \[1, 1\]"):
        LobsterConfig("rt", rt, protocol, (1, 1))
    with pytest.raises(ValueError, match="num-layers must be at least 1, got 0"):
        replace(rt, num_layers=0)
    with pytest.raises(ValueError, match="learning-rate must be a number above 0"):
        replace(rt, learning_rate=-1.0)
    with pytest.raises(ValueError, match="test-size must be at least 2"):
        LobsterProtocol(test_size=1)
    with pytest.raises(ValueError, match="training sizes end at 4"):
        LobsterProtocol(end_size=4)
    with pytest.raises(ValueError, match="attention must be one of all, edges, got 'some'"):
        RelationalSettings(attention="some")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="not the configuration of a lobster run"):
        LobsterConfig.from_dict({"model": "rt"})
