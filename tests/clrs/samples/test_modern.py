"""The modern protocol's form of the data, and what varies in it."""

import numpy as np
import pytest

from relational_transformer.clrs import ALGORITHMS, Location, Stage, Type, sample, spec_of
from relational_transformer.clrs.feature import FeatureSpec
from relational_transformer.clrs.samples.modern import (
    PREDECESSORS_AS_INPUT,
    cyclic_permutation,
    random_positions,
    training_lengths,
)
from relational_transformer.clrs.tracing import dtype_of, shape_of

SORTS = ("bubble_sort", "heapsort", "insertion_sort", "quicksort")
MATCHERS = ("kmp_matcher", "naive_string_matcher")


def modern(name, num_samples=20, length=None, seed=5, training=True):
    return sample(name, num_samples, length or training_lengths(name)[-1], seed, protocol="modern", training=training)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_batches_have_the_features_of_the_spec_in_its_order(name):
    spec = spec_of(name, protocol="modern")
    data = modern(name, num_samples=3)
    for stage, leading in ((Stage.INPUT, (3,)), (Stage.OUTPUT, (3,)), (Stage.HINT, (data.num_steps, 3))):
        arrays = {Stage.INPUT: data.inputs, Stage.OUTPUT: data.outputs, Stage.HINT: data.hints}[stage]
        assert list(arrays) == [key for key, feature in spec.items() if feature.stage == stage]
        for key, array in arrays.items():
            assert array.shape == leading + shape_of(spec[key], data.num_nodes), key
            assert array.dtype == dtype_of(spec[key]), key


def test_the_modern_spec_differs_from_the_papers_where_the_protocol_says():
    for name in ALGORITHMS:
        paper, ours = spec_of(name), spec_of(name, protocol="modern")
        gone = {key for key in paper if paper[key] != ours.get(key)}
        new = {key for key in ours if ours[key] != paper.get(key)}
        assert gone == ({"pred_h"} if name in PREDECESSORS_AS_INPUT else {"pred"} if name in SORTS else set())
        expected = {"pred"} if name in PREDECESSORS_AS_INPUT else {"pred", "pred_mask"} if name in SORTS else set()
        assert new == expected | ({"pivot"} if name == "quickselect" else set())
    assert spec_of("minimum", protocol="modern")["pred"] == FeatureSpec(Stage.INPUT, Location.NODE, Type.POINTER)
    sort = spec_of("heapsort", protocol="modern")
    assert sort["pred"] == FeatureSpec(Stage.OUTPUT, Location.NODE, Type.PERMUTATION_POINTER)
    assert sort["pred_mask"] == FeatureSpec(Stage.OUTPUT, Location.NODE, Type.MASK_ONE)


@pytest.mark.parametrize("name", SORTS)
def test_permutations_are_one_cycle_in_the_order_of_the_keys(name):
    data = modern(name)
    pred, first = data.outputs["pred"], data.outputs["pred_mask"]
    assert (pred.sum(axis=1) == 1).all()
    assert (pred.sum(axis=2) == 1).all()
    assert (first.sum(axis=1) == 1).all()
    for example in range(len(data)):
        order = np.argsort(data.inputs["key"][example])
        assert first[example].argmax() == order[0]
        # From the first node, whose row points at the last one, through all of them and back.
        node, visited = order[0], []
        for _ in order:
            node = pred[example, node].argmax()
            visited.append(node)
        assert visited == list(order[::-1])


@pytest.mark.parametrize(
    ("predecessors", "permutation"),
    [([2, 1, 1], [2, 0, 1]), ([0], [0]), ([0, 0], [1, 0]), ([1, 1], [1, 0])],
)
def test_the_first_node_points_at_the_last(predecessors, permutation):
    rows, first = cyclic_permutation(np.array([predecessors]))
    assert rows[0].argmax(axis=1).tolist() == permutation
    assert first[0].tolist() == [node == predecessor for node, predecessor in enumerate(predecessors)]


@pytest.mark.parametrize("name", sorted(PREDECESSORS_AS_INPUT))
def test_the_order_of_the_nodes_is_an_input_because_no_step_changes_it(name):
    length = training_lengths(name)[-1]
    data = sample(name, 10, length, seed=3, version="2.0")
    constant = data.hints["pred_h"][0]
    for example, steps in enumerate(data.lengths):
        assert (data.hints["pred_h"][:steps, example] == constant[example]).all()
    ours = modern(name, training=False)
    assert "pred_h" not in ours.hints
    assert list(ours.inputs)[-1] == "pred"
    assert ours.inputs["pred"].dtype == np.int16
    # Inputs of the nodes' order lead to the first node of each sequence, whose even position is 0.
    starts = ours.inputs["pos"] == 0
    assert ((ours.inputs["pred"] == np.arange(ours.num_nodes)) == starts).all()


def test_hints_that_change_stay_hints():
    for name in set(ALGORITHMS) - PREDECESSORS_AS_INPUT:
        assert ("pred_h" in spec_of(name, protocol="modern")) == ("pred_h" in spec_of(name))


@pytest.mark.parametrize("name", ["bfs", "insertion_sort", "optimal_bst", "segments_intersect"])
def test_positions_are_random_and_ascending_in_training_and_even_in_testing(name):
    positions = modern(name).inputs["pos"]
    assert (np.diff(positions, axis=1) > 0).all()
    assert len(np.unique(positions)) == positions.size
    assert positions.min() > 0
    assert positions.max() < 1
    even = modern(name, training=False).inputs["pos"]
    np.testing.assert_allclose(even, np.broadcast_to(np.arange(even.shape[1]) / even.shape[1], even.shape), rtol=1e-6)


@pytest.mark.parametrize("name", [*MATCHERS, "lcs_length"])
def test_positions_ascend_within_each_of_two_strings(name):
    data = modern(name)
    for position, string in zip(data.inputs["pos"], data.inputs["string"], strict=True):
        for number in (0, 1):
            assert (np.diff(position[string == number]) > 0).all()


def test_random_positions_are_sorted_within_each_sequence_and_lose_no_value():
    random = np.random.default_rng(0)
    even = np.array([[0, 0.25, 0.5, 0.75, 0], [0, 0, 1 / 3, 2 / 3, 3 / 4]])
    values = random.random((2, 5))
    expected = [
        [*sorted(values[0, :4]), values[0, 4]],
        [values[1, 0], *sorted(values[1, 1:])],
    ]
    assert random_positions(even, values).tolist() == expected


@pytest.mark.parametrize("name", MATCHERS)
def test_needles_have_one_to_eight_characters_and_are_in_the_haystack(name):
    data = modern(name, num_samples=300)
    assert data.num_nodes == 20
    sizes = data.inputs["string"].sum(axis=1)
    assert set(sizes.tolist()) == set(range(1, 9))
    for example, size in enumerate(sizes):
        characters = data.inputs["key"][example].argmax(axis=1)
        start = data.outputs["match"][example].argmax()
        np.testing.assert_array_equal(characters[start : start + size], characters[20 - size :])
    assert set(modern(name, training=False).inputs["string"].sum(axis=1).tolist()) == {4}


@pytest.mark.parametrize(
    ("name", "highest"), [("dfs", 0.9), ("strongly_connected_components", 0.9), ("bridges", 0.45), ("bfs", 0.9)]
)
def test_graphs_are_of_very_different_density(name, highest):
    """Undirected edges take two coins of chance p, .1 to .9 (half of that for long traces)."""
    graphs = modern(name, num_samples=400).inputs["A"] != 0
    off_diagonal = graphs[:, ~np.eye(16, dtype=bool)].mean(axis=1)
    directed = name in ("dfs", "strongly_connected_components")
    # Only a quarter of the pairs of nodes are in one community.
    share = 0.25 if name == "strongly_connected_components" else 1.0
    densest = (highest if directed else highest**2) * share
    assert 0.75 * densest < np.quantile(off_diagonal, 0.95) < 1.25 * densest
    assert np.quantile(off_diagonal, 0.05) < 0.25 * densest


@pytest.mark.parametrize("name", ["bfs", "naive_string_matcher"])
def test_first_examples_do_not_depend_on_how_many_are_drawn(name):
    few, many = modern(name, num_samples=3), modern(name, num_samples=40)
    assert many.select(slice(0, 3)).digest() == few.digest()


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"protocol": "generalist"}, "The protocol is 'generalist'; there are 'paper' and 'modern'"),
        ({"protocol": None}, "The protocol is None"),
        ({"version": "1.0"}, "features of version '2.0' alone"),
        ({"name": "kmp_matcher"}, "length for kmp_matcher is 16; it must be at least 17"),
        ({"name": "kmp_matcher", "length": 2, "training": False}, "at least 3"),
        ({"name": "strongly_connected_components", "length": 3}, "at least 4"),
        ({"name": "quicksort", "length": 1}, "at least 2"),
        ({"length": 0}, "length for bfs is 0"),
        ({"name": "bsf"}, "Did you mean 'bfs'"),
    ],
)
def test_impossible_requests_are_refused_in_a_sentence(request_, words):
    with pytest.raises(ValueError, match=words):
        sample(**{"name": "bfs", "num_samples": 2, "length": 16, "seed": 1, "protocol": "modern", **request_})


def test_unknown_protocols_of_a_spec_are_refused():
    with pytest.raises(ValueError, match="there are 'paper' and 'modern'"):
        spec_of("bfs", protocol="new")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_shortest_length_works(name):
    shortest = {"strongly_connected_components": 4, "quicksort": 2, "lcs_length": 2}.get(name, 1)
    data = modern(name, length=17 if name in MATCHERS else shortest)
    assert data.lengths.min() >= 1
