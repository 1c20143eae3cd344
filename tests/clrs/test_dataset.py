"""The canonical splits and their cache."""

import logging
import multiprocessing

import numpy as np
import pytest

from relational_transformer.clrs import ALGORITHMS, canonical, sample
from relational_transformer.clrs.dataset import cache_folder, canonical_path, canonical_split
from relational_transformer.clrs.preparation import Preparation, prepare


def test_splits_have_the_canonical_examples_lengths_and_seeds():
    train, val, test = (canonical_split("bfs", split) for split in ("train", "val", "test"))
    assert (train.num_samples, train.length, train.seed) == (10_000, 16, 1)
    assert (val.num_samples, val.length, val.seed) == (32, 16, 2)
    assert (test.num_samples, test.length, test.seed) == (32, 64, 3)
    assert canonical_split("bfs", "train", 1000).num_samples == 1000


def test_algorithms_that_say_little_are_tested_on_more():
    counts = {name: canonical_split(name, "test").num_samples for name in ALGORITHMS}
    assert counts["find_maximum_subarray_kadane"] == 32 * 32
    assert sorted(name for name, count in counts.items() if count == 32 * 64) == [
        "binary_search",
        "kmp_matcher",
        "minimum",
        "naive_string_matcher",
        "quickselect",
        "segments_intersect",
    ]
    assert sum(count == 32 for count in counts.values()) == 23
    assert canonical_split("minimum", "train").num_samples == 10_000


def test_a_split_is_what_sample_makes_and_is_made_once(tmp_path):
    data = canonical("binary_search", "val", cache=tmp_path)
    assert data.digest() == sample("binary_search", 2048, 16, 2).digest()
    path = canonical_path("binary_search", "val", cache=tmp_path)
    written = path.stat().st_mtime_ns
    canonical("binary_search", "val", cache=tmp_path)
    assert path.stat().st_mtime_ns == written


def test_string_matchers_have_20_and_80_nodes_in_both_versions(tmp_path):
    for version in ("1.0", "2.0"):
        val = canonical("naive_string_matcher", "train", num_samples=5, version=version, cache=tmp_path)
        assert val.num_nodes == 20
    old = canonical("naive_string_matcher", "test", num_samples=5, cache=tmp_path)
    new = canonical("naive_string_matcher", "test", num_samples=5, version="2.0", cache=tmp_path)
    assert new.num_nodes == 80
    assert old.digest() == new.digest()


def test_modern_validation_varies_like_training_and_is_twice_as_large(tmp_path):
    data = canonical("binary_search", "val", protocol="modern", cache=tmp_path)
    assert len(data) == 64 * 64
    assert data.digest() == sample("binary_search", 64 * 64, 16, 2, protocol="modern").digest()
    strings = canonical("kmp_matcher", "val", protocol="modern", num_samples=50, cache=tmp_path)
    assert strings.num_nodes == 20
    assert len(set(strings.inputs["string"].sum(axis=1).tolist())) > 4


@pytest.mark.parametrize(("name", "nodes"), [("insertion_sort", 64), ("minimum", 64), ("naive_string_matcher", 80)])
def test_modern_test_examples_are_the_papers_in_the_modern_form(tmp_path, name, nodes):
    paper = canonical(name, "test", num_samples=20, cache=tmp_path)
    modern = canonical(name, "test", num_samples=20, protocol="modern", cache=tmp_path)
    assert modern.num_nodes == nodes
    np.testing.assert_array_equal(modern.lengths, paper.lengths)
    for stage in ("inputs", "hints", "outputs"):
        ours, theirs = getattr(modern, stage), getattr(paper, stage)
        for feature in set(ours) & set(theirs) - {"pred"}:
            np.testing.assert_array_equal(ours[feature], theirs[feature])
    if name == "insertion_sort":
        pointers = modern.outputs["pred"].argmax(axis=2)
        is_first = modern.outputs["pred_mask"] == 1
        np.testing.assert_array_equal(np.where(is_first, np.arange(64), pointers), paper.outputs["pred"])
    else:
        np.testing.assert_array_equal(modern.inputs["pred"], paper.hints["pred_h"][0])


def test_protocols_keep_their_data_apart(tmp_path):
    paths = {canonical_path("bfs", "test", protocol=protocol, cache=tmp_path).name for protocol in ("paper", "modern")}
    assert paths == {"bfs-test-32-v1.0.clrs", "bfs-test-32-modern.clrs"}


def test_the_modern_protocol_has_no_training_set(tmp_path):
    with pytest.raises(ValueError, match="trains on fresh examples, see training_blocks"):
        canonical("bfs", "train", protocol="modern", cache=tmp_path)
    with pytest.raises(ValueError, match="the splits are val, test"):
        canonical("bfs", "dev", protocol="modern", cache=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="The protocol is 'new'"):
        canonical("bfs", "test", protocol="new", cache=tmp_path)  # type: ignore[arg-type]


def test_a_damaged_file_is_made_again_with_one_line_saying_so(tmp_path, caplog):
    path = canonical_path("minimum", "val", num_samples=10, cache=tmp_path)
    expected = canonical("minimum", "val", num_samples=10, cache=tmp_path).digest()
    path.write_bytes(path.read_bytes()[:-100])
    with caplog.at_level(logging.WARNING):
        assert canonical("minimum", "val", num_samples=10, cache=tmp_path).digest() == expected
    assert [record.getMessage() for record in caplog.records] == [f"Making {path} again: its checksum is wrong."]


def test_the_cache_moves_with_the_environment_and_the_argument(tmp_path, monkeypatch):
    monkeypatch.setenv("RT_CACHE", str(tmp_path / "there"))
    assert cache_folder() == tmp_path / "there"
    assert cache_folder(tmp_path / "here") == tmp_path / "here"
    monkeypatch.delenv("RT_CACHE")
    assert cache_folder().parts[-2:] == (".cache", "relational_transformer")


def test_unknown_splits_and_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match="the splits are train, val, test"):
        canonical("bfs", "dev", cache=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Did you mean 'bfs'"):
        canonical("bfss", "val", cache=tmp_path)
    with pytest.raises(ValueError, match="num_samples is 0"):
        canonical("bfs", "train", num_samples=0, cache=tmp_path)


def _make(cache, queue):
    queue.put(canonical("minimum", "val", cache=cache).digest())


def test_two_processes_making_the_same_file_do_no_harm(tmp_path):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=_make, args=(tmp_path, queue)) for _ in range(2)]
    for process in processes:
        process.start()
    digests = {queue.get() for _ in processes}
    for process in processes:
        process.join()
    assert digests == {sample("minimum", 2048, 16, 2).digest()}
    assert [path.name for path in (tmp_path / "clrs").iterdir()] == ["minimum-val-2048-v1.0.clrs"]


@pytest.mark.parametrize("processes", [1, 2])
def test_preparing_makes_every_split_and_says_what_it_is(tmp_path, processes):
    wanted = [Preparation(name, "train", num_samples=20, cache=tmp_path) for name in ("minimum", "insertion_sort")]
    prepared = {result.algorithm: result for result in prepare(wanted, processes)}
    assert set(prepared) == {"minimum", "insertion_sort"}
    result = prepared["minimum"]
    assert result.num_samples == 20
    assert result.mean_steps == result.longest == 16
    assert result.num_bytes == result.path.stat().st_size > 0
