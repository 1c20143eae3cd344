"""What `sample` promises beside its bits: the same first examples however many, and no impossible requests."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from relational_transformer.clrs import ALGORITHMS, sample, tracing
from relational_transformer.clrs.algorithms import implementation_of
from relational_transformer.clrs.algorithms.graphs import GRAPHS
from relational_transformer.clrs.samples import sampling


@pytest.mark.parametrize("name", ["bfs", "quicksort", "kmp_matcher", "segments_intersect", "graham_scan"])
def test_first_examples_do_not_depend_on_how_many_are_drawn(name):
    few, many = sample(name, 3, 10, seed=1), sample(name, 40, 10, seed=1)
    assert many.select(slice(0, 3)).digest() == few.digest()


@pytest.mark.parametrize("name", ["articulation_points", "quickselect", "mst_kruskal"])
def test_neither_batches_nor_scratch_space_show_in_the_result(name, monkeypatch):
    expected = sample(name, 30, 8, seed=2).digest()
    monkeypatch.setattr(sampling, "BATCH_BYTES", 1)
    monkeypatch.setattr(tracing, "SCRATCH_BYTES", 1)
    assert sample(name, 30, 8, seed=2).digest() == expected


def test_seeds_give_different_examples():
    assert sample("minimum", 4, 8, seed=1).digest() != sample("minimum", 4, 8, seed=2).digest()


def test_selected_examples_are_padded_to_the_longest_among_them():
    data = sample("quickselect", 30, 12, seed=3)
    shortest = np.argsort(data.lengths)[:2]
    selected = data.select(shortest)
    assert selected.num_steps == data.lengths[shortest].max() < data.num_steps
    np.testing.assert_array_equal(selected.inputs["key"], data.inputs["key"][shortest])


def test_numpy_integers_are_numbers_too():
    assert sample("minimum", np.int64(2), np.int32(4), np.uint32(5)).digest() == sample("minimum", 2, 4, 5).digest()


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (("minimum", 0, 16, 1), "num_samples is 0; it must be at least 1"),
        (("minimum", -3, 16, 1), "num_samples is -3"),
        (("minimum", 2.5, 16, 1), "num_samples is 2.5; it must be a whole number"),
        (("minimum", 1, 0, 1), "length for minimum is 0; it must be at least 1"),
        (("quicksort", 1, 1, 1), "length for quicksort is 1; it must be at least 2"),
        (("lcs_length", 1, 1, 1), "at least 2"),
        (("strongly_connected_components", 1, 3, 1), "at least 4"),
        (("naive_string_matcher", 1, 1, 1), "at least 2"),
        (("minimum", 1, "16", 1), "length for minimum is '16'; it must be a whole number"),
        (("minimum", 1, 10**6, 1), "at most"),
        (("minimum", 1, 16, -1), "seed is -1"),
        (("minimum", 1, 16, 2**32), "at most 4294967295"),
        (("minimum", 1, 16, 1.0), "seed is 1.0; it must be a whole number"),
        (("minimum", 1, 16, None), "seed is None; it must be a whole number"),
        (("minimum", 1, 16, True), "seed is True; it must be a whole number"),
    ],
)
def test_impossible_requests_are_refused_in_a_sentence(request_, words):
    with pytest.raises(ValueError, match=words):
        sample(*request_)


def test_version_must_be_known():
    with pytest.raises(ValueError, match=r"'1\.0' and '2\.0'"):
        sample("minimum", 1, 4, 1, version="3.0")  # type: ignore[arg-type]


def test_version_2_counts_both_strings_in_its_shortest_length():
    assert sample("kmp_matcher", 1, 3, 1, version="2.0").num_nodes == 3
    with pytest.raises(ValueError, match="at least 3"):
        sample("kmp_matcher", 1, 2, 1, version="2.0")


@pytest.mark.parametrize(("wrong", "right"), [("belman_ford", "bellman_ford"), ("Insertion Sort", "insertion_sort")])
def test_unknown_names_get_the_nearest_and_all_known_ones(wrong, right):
    with pytest.raises(ValueError, match=f"Did you mean '{right}'") as caught:
        sample(wrong, 1, 4, 1)
    assert all(name in str(caught.value) for name in ALGORITHMS)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_shortest_length_works(name):
    length = {"strongly_connected_components": 4, "kmp_matcher": 2, "naive_string_matcher": 2}.get(name, 1)
    length = max(length, 2) if name in ("quicksort", "lcs_length") else length
    data = sample(name, 5, length, seed=6)
    assert data.num_nodes >= 1
    assert data.lengths.min() >= 1


def test_longer_traces_than_the_algorithm_says_are_impossible():
    """Rows are not checked in compiled code, so the bounds have to hold; here they do on many small examples."""
    for name in ALGORITHMS:
        implementation = implementation_of(name)
        for length in (4, 5, 8):
            drawn = implementation.draw(sampling.open_stream(7), 200, length)
            data = sample(name, 200, length, seed=7, version="2.0")
            if name != "mst_kruskal":  # which looks for itself
                assert data.lengths.max() <= implementation.longest(drawn), name


def test_a_trace_that_runs_out_of_rows_is_run_again_with_more(monkeypatch):
    expected = sample("mst_kruskal", 20, 16, seed=8).digest()
    implementation = replace(GRAPHS["mst_kruskal"], longest=lambda drawn: 2)
    monkeypatch.setitem(GRAPHS, "mst_kruskal", implementation)
    monkeypatch.setattr(tracing, "SCRATCH_BYTES", 1)
    assert sample("mst_kruskal", 20, 16, seed=8).digest() == expected


def test_the_data_does_not_import_torch():
    code = "import sys, relational_transformer.clrs; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
