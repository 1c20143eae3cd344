"""Every feature of every algorithm has the shape, the type and the range that its spec says."""

import numpy as np
import pytest

from relational_transformer.clrs import ALGORITHMS, Location, Stage, Type, sample, spec_of
from relational_transformer.clrs.tracing import dtype_of, shape_of

EXAMPLES = 6

# A hint whose last value is the output, or the output's twin: hint -> output.
LAST_HINT_IS_OUTPUT = {
    "articulation_points": {"is_cut_h": "is_cut"},
    "activity_selector": {"selected_h": "selected"},
    "bellman_ford": {"pi_h": "pi"},
    "bfs": {"pi_h": "pi"},
    "binary_search": {"high": "return", "low": "return"},
    "bridges": {"is_bridge_h": "is_bridge"},
    "bubble_sort": {"pred_h": "pred"},
    "dag_shortest_paths": {"pi_h": "pi"},
    "dfs": {"pi_h": "pi"},
    "dijkstra": {"pi_h": "pi"},
    "find_maximum_subarray_kadane": {"best_low": "start", "best_high": "end"},
    "graham_scan": {"in_hull_h": "in_hull"},
    "heapsort": {"pred_h": "pred"},
    "insertion_sort": {"pred_h": "pred"},
    "jarvis_march": {"in_hull_h": "in_hull"},
    "kmp_matcher": {"s": "match"},
    "matrix_chain_order": {"s_h": "s"},
    "minimum": {"min_h": "min"},
    "mst_kruskal": {"in_mst_h": "in_mst"},
    "mst_prim": {"pi_h": "pi"},
    "naive_string_matcher": {"s": "match"},
    "optimal_bst": {"root_h": "root"},
    "quickselect": {"i": "median"},
    "quicksort": {"pred_h": "pred"},
    "strongly_connected_components": {"scc_id_h": "scc_id"},
    "task_scheduling": {"selected_h": "selected"},
    "topological_sort": {"topo_h": "topo", "topo_head_h": "topo_head"},
}


@pytest.fixture(scope="module", params=ALGORITHMS)
def case(request):
    return request.param, sample(request.param, EXAMPLES, 9, 5, version="2.0")


def features(case):
    name, data = case
    for feature_name, feature in spec_of(name, "2.0").items():
        stage = {Stage.INPUT: data.inputs, Stage.OUTPUT: data.outputs, Stage.HINT: data.hints}[feature.stage]
        yield feature_name, feature, stage[feature_name]


def real_values(case, feature, array):
    """Values [..., features] of all examples (and, for hints, of all steps that are not padding)."""
    if feature.stage != Stage.HINT:
        return array
    _, data = case
    return np.concatenate([array[:length, example] for example, length in enumerate(data.lengths)])


def test_features_come_in_the_order_of_the_spec_with_its_shapes_and_narrow_types(case):
    name, data = case
    assert [*data.inputs, *data.outputs, *data.hints] == list(spec_of(name, "2.0"))
    for _, feature, array in features(case):
        leading = (data.num_steps, EXAMPLES) if feature.stage == Stage.HINT else (EXAMPLES,)
        assert array.shape == leading + shape_of(feature, data.num_nodes)
        assert array.dtype == dtype_of(feature)
    assert data.lengths.dtype == np.int32


def test_values_are_in_the_range_of_their_type(case):
    _, data = case
    for name, feature, array in features(case):
        values = real_values(case, feature, array)
        if feature.type == Type.SCALAR:
            assert np.isfinite(values).all(), name
        elif feature.type in (Type.POINTER, Type.SHOULD_BE_PERMUTATION):
            assert values.min() >= 0, name
            assert values.max() < data.num_nodes, name
        else:
            assert np.isin(values, (-1, 0, 1)).all(), name
        if feature.type == Type.MASK_ONE:
            np.testing.assert_array_equal(values.sum(axis=-1), 1, err_msg=name)
            assert values.min() == 0, name
        if feature.type == Type.CATEGORICAL:
            np.testing.assert_array_equal(np.abs(values).sum(axis=-1), 1, err_msg=name)


def test_only_edges_can_be_without_meaning(case):
    for name, feature, array in features(case):
        if feature.type in (Type.MASK, Type.CATEGORICAL) and feature.location != Location.EDGE:
            assert array.min() >= 0, name


def test_hints_are_zero_after_the_end_of_a_trace_and_the_longest_fills_them(case):
    _, data = case
    assert data.lengths.max() == data.num_steps
    assert data.lengths.min() >= 1
    for array in data.hints.values():
        for example, length in enumerate(data.lengths):
            assert not array[length:, example].any()


def test_last_hint_agrees_with_the_output(case):
    name, data = case
    pairs = LAST_HINT_IS_OUTPUT.get(name, {})
    # The last sweep of these two can still change what is put out; and the verdict on two segments is no hint.
    assert pairs or name in ("floyd_warshall", "lcs_length", "segments_intersect")
    for hint, output in pairs.items():
        last = np.stack([data.hints[hint][length - 1, example] for example, length in enumerate(data.lengths)])
        np.testing.assert_array_equal(last, data.outputs[output], err_msg=hint)
