"""What a protocol is made of, and what it refuses."""

import json
from dataclasses import replace

import numpy as np
import pytest

from relational_transformer.processors.settings import find_settings
from relational_transformer.training import PROTOCOLS, Protocol, TrainConfig
from relational_transformer.training.config import LATER
from relational_transformer.training.data import make_split
from tests.training.small import SETTINGS, small_config

MODERN = PROTOCOLS["modern"]


def test_the_modern_protocol_has_the_published_numbers_but_for_a_quarter_of_the_validations():
    settings = find_settings("rt", modern=True)
    config = TrainConfig("bfs", "rt", settings, MODERN, (0,))
    assert (settings.batch_size, settings.gradient_clip) == (32, 1.0)
    assert (MODERN.examples // settings.batch_size, config.steps_of_part) == (10_000, 200)
    assert (MODERN.teacher_forcing, MODERN.hint_feedback, MODERN.data) == (0.0, "soft", "modern")
    assert find_settings("triplet_gmpnn", modern=True) == find_settings("triplet_gmpnn")


@pytest.mark.parametrize(("task", "nodes"), [("bfs", (16, 64)), ("kmp_matcher", (20, 80))])
def test_validation_is_of_the_training_sizes_and_the_test_of_64_nodes(task: str, nodes: tuple[int, int]):
    small = replace(MODERN, validation_examples=1, evaluation_examples=1)
    splits = [make_split(task, "val", small), make_split(task, "test", small)]
    assert tuple(split.num_nodes for split in splits) == nodes
    even = np.arange(nodes[1]) / nodes[1] if task == "bfs" else None
    if even is not None:
        assert np.allclose(splits[1].inputs["pos"][0], even)
        assert not np.allclose(splits[0].inputs["pos"][0], even[:: nodes[1] // nodes[0]])


def test_other_sizes_have_the_same_form():
    protocol = replace(MODERN, validation_nodes=6, test_nodes=9, evaluation_examples=2, validation_examples=3)
    validation, test = (make_split("insertion_sort", name, protocol) for name in ("val", "test"))
    assert (len(validation), validation.num_nodes, len(test), test.num_nodes) == (3, 6, 2, 9)
    assert validation.outputs["pred"].shape == (3, 6, 6)
    assert test.outputs["pred"].shape == (2, 9, 9)


def test_a_run_by_the_papers_protocol_is_known_by_what_it_was_known_by():
    assert not set(LATER) & small_config().as_dict()["protocol"].keys()
    assert list(small_config().as_dict()["protocol"])[:3] == ["train_examples", "train_nodes", "train_data_seed"]


@pytest.mark.parametrize("change", [{}, {"train_lengths": (5, 10)}, {"hint_feedback": "hard"}, {"examples": 64}])
def test_a_modern_configuration_survives_json(change: dict):
    config = small_config(protocol=replace(MODERN, **change), settings=replace(SETTINGS, batch_size=32))
    content = json.loads(json.dumps(config.as_dict()))
    assert TrainConfig.from_dict(content) == config
    assert "train_nodes" not in content["protocol"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": "recent"}, "there are 'paper' and 'modern'"),
        ({"train_lengths": (4,)}, "--train-lengths needs --data modern: give --train-nodes"),
        ({"data": "modern", "train_nodes": 8}, "--train-nodes describes a training set, which --data modern does not"),
        ({"hint_feedback": "softly"}, "hint_feedback must be"),
        ({"validation_examples": 0}, "validation-examples must be at least 1, got 0"),
    ],
)
def test_what_does_not_go_together_is_named(change: dict, message: str):
    with pytest.raises(ValueError, match=message):
        Protocol(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": (2**32,)}, "seeds of fresh examples must be at most 4,294,967,295"),
        ({"protocol": replace(MODERN, validation_interval=32)}, "after 1 updates, which must be a multiple of the 5"),
        ({"protocol": replace(MODERN, train_lengths=(0,))}, "length for bfs"),
    ],
)
def test_runs_that_cannot_be_made_are_refused_before_they_begin(change: dict, message: str):
    with pytest.raises(ValueError, match=message):
        small_config(**{"protocol": MODERN, "settings": find_settings("rt", modern=True), **change})
