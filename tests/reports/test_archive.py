"""Which results belong to which cell, and what is said of those that were run differently."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from relational_transformer.processors.settings import ABLATIONS, TUNED, UNTUNED, find_settings
from relational_transformer.reports.results.archive import Archive, ours_of
from relational_transformer.reports.results.measured import read_results
from relational_transformer.reports.results.variants import variant_of
from tests.reports.fakes import write_result


def archive(folder: Path) -> Archive:
    return Archive(read_results(folder))


@pytest.mark.parametrize("name", [*TUNED, *ABLATIONS, *(f"untuned_{name}" for name in UNTUNED)])
def test_every_model_of_the_paper_is_known_by_its_settings_whatever_it_is_called(name: str):
    assert variant_of("something", asdict(find_settings(name))) == name


def test_an_ablation_with_other_sizes_is_still_that_ablation():
    settings = {**asdict(find_settings("rt_no_edge_updates")), "hidden_size": 24}
    assert variant_of("rt", settings) == "rt_no_edge_updates"


def test_a_processor_that_is_not_the_papers_goes_by_its_own_name():
    assert variant_of("mine", {"processor": "mine"}) == "mine"


def test_the_papers_protocol_is_preferred_then_longer_training_then_more_seeds(tmp_path):
    write_result(tmp_path / "short", "bfs", [0.5] * 9, examples=1_000)
    write_result(tmp_path / "long", "bfs", [0.6], examples=64_000)
    write_result(tmp_path / "long-again", "bfs", [0.7, 0.7], examples=64_000, validation_interval=640)
    found = archive(tmp_path).find("bfs", "rt")
    assert found.estimate.mean == pytest.approx(70.0)
    assert found.notes == ("examples 64,000, validation interval 640",)
    assert not found.comparable
    write_result(tmp_path / "paper", "bfs", [0.9])
    found = archive(tmp_path).find("bfs", "rt")
    assert found.estimate.mean == pytest.approx(90.0)
    assert found.comparable
    assert found.notes == ()


def test_another_precision_is_named_and_still_compared(tmp_path):
    write_result(tmp_path / "a", "bfs", [0.9], precision="bf16")
    found = archive(tmp_path).find("bfs", "rt")
    assert found.comparable
    assert found.notes == ("precision bf16",)


def test_the_two_sizes_of_training_sets_of_untuned_models_are_never_mixed_up(tmp_path):
    write_result(tmp_path / "small", "bfs", [0.5], "untuned_mpnn", train_examples=1_000)
    measured = archive(tmp_path)
    assert measured.find("bfs", "untuned_mpnn", 1_000).comparable
    assert measured.find("bfs", "untuned_mpnn", 10_000) is None
    assert measured.find("bfs", "untuned_mpnn") is None
    assert measured.find("bfs", "mpnn") is None


def test_a_tuned_model_trained_on_fewer_examples_is_marked(tmp_path):
    write_result(tmp_path / "a", "bfs", [0.5], train_examples=1_000)
    assert archive(tmp_path).find("bfs", "rt").notes == ("train examples 1,000",)


def test_pgn_c_is_the_better_of_the_two_and_missing_without_both(tmp_path):
    write_result(tmp_path / "u", "bfs", [0.9, 0.8], "pgn")
    assert archive(tmp_path).find("bfs", "pgn_combined") is None
    write_result(tmp_path / "m", "bfs", [0.95], "pgn_masked")
    assert archive(tmp_path).find("bfs", "pgn_combined").estimate.mean == pytest.approx(95.0)
    write_result(tmp_path / "untuned", "bfs", [0.1], "untuned_pgn", train_examples=1_000)
    assert archive(tmp_path).find("bfs", "untuned_pgn_combined", 1_000) is None


def test_seeds_of_equal_runs_are_put_together_and_failed_ones_counted(tmp_path):
    write_result(tmp_path / "a", "bfs", {0: 0.98, 1: 1.0})
    write_result(tmp_path / "b", "bfs", {2: 0.96, 3: None})
    write_result(tmp_path / "c", "bfs", {0: 0.5}, examples=1000)
    together, other = sorted(read_results(tmp_path), key=lambda result: -len(result.scores))
    assert together.estimate.mean == pytest.approx(98.0)
    assert together.estimate.deviation == pytest.approx(2.0)
    assert together.failed == (3,)
    assert [run.seeds for run in together.runs] == [(0, 1), (2, 3)]
    assert other.estimate.deviation is None


def test_a_seed_that_was_trained_twice_counts_where_it_did_not_fail(tmp_path):
    for name, score in (("a", None), ("b", 0.98), ("c", None), ("d", 0.98)):
        write_result(tmp_path / name, "bfs", {0: score})
    (result,) = read_results(tmp_path)
    assert (result.scores, result.failed) == ({0: pytest.approx(98.0)}, ())


def test_results_that_contradict_each_other_are_named(tmp_path):
    for name, score in (("a", 0.98), ("b", 0.97)):
        write_result(tmp_path / name, "bfs", {0: score, 1: 0.5})
    with pytest.raises(ValueError, match=r"/a and .*/b have different scores of seed 0: remove one"):
        read_results(tmp_path)


def test_damaged_results_are_named(tmp_path):
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(ValueError, match=r"^\S*result.json is not JSON .*; delete it to test the run again$"):
        read_results(tmp_path)


def test_the_same_seeds_with_and_without_kernels_are_two_results_and_other_seeds_one(tmp_path):
    def write(name: str, scores: dict[int, float], used: bool) -> None:
        path = write_result(tmp_path / name, "bfs", scores) / "result.json"
        told = {"kernels": "auto", "layers_are_kernels": used}
        path.write_text(json.dumps({**json.loads(path.read_text()), **told}))

    write("first", {0: 0.5, 1: 0.6}, True)
    write("more", {2: 0.7}, False)
    assert [list(one.scores) for one in read_results(tmp_path)] == [[0, 1, 2]]
    write("without", {0: 0.4, 1: 0.6}, False)
    fused, plain = read_results(tmp_path)
    assert (fused.scores, plain.scores) == ({0: 50.0, 1: 60.0}, {0: 40.0, 1: 60.0, 2: 70.0})
    assert ours_of(fused).notes == ("with fused kernels",)
    assert ours_of(plain).notes == ("without fused kernels",)


@pytest.mark.parametrize(
    ("name", "value"),
    [("model", ["rt"]), ("task", 3), ("settings", 0.5), ("protocol", "paper"), ("protocol", {"examples": "many"})],
)
def test_a_configuration_of_other_types_is_no_result(tmp_path: Path, name: str, value: object):
    write_result(tmp_path / "odd", "bfs", [0.5])
    path = tmp_path / "odd" / "result.json"
    result = json.loads(path.read_text())
    result["config"][name] = value
    path.write_text(json.dumps(result))
    with pytest.raises(ValueError, match=rf"odd/result\.json is not a result \(ValueError: {name}.* is "):
        read_results(tmp_path)
