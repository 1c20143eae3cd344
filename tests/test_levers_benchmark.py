"""The kept evidence for optional parts of a model, and its table."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import levers as benchmark
from benchmarks.levers import configuration, file_of, options_of, table
from relational_transformer.training import fresh

KEPT = {path.stem: json.loads(path.read_text()) for path in sorted(benchmark.KEPT.glob("*.json"))}
REPOSITORY = Path(__file__).parents[1]


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_was_trained_as_the_command_trains_it(name: str):
    config = KEPT[name]["config"]
    options = options_of(KEPT[name])
    assert name == file_of(config["task"], options)
    expected = json.loads(json.dumps(configuration(config["task"], {}).as_dict()))  # some options are no more
    expected["settings"] |= options
    assert config == expected


@pytest.mark.parametrize(("page", "every"), [("docs/levers.md", False), ("results/levers/README.md", True)])
def test_the_pages_have_the_tables_of_what_is_kept(page: str, every: bool):
    assert table(list(KEPT.values()), every=every) in (REPOSITORY / page).read_text()


def test_options_that_the_package_has_no_more_are_in_the_whole_table_alone():
    found = [table(list(KEPT.values()), every=every).splitlines()[2:] for every in (False, True)]
    assert {row.split(" | ")[0] for row in found[0]} == {"| edge pointers bound"}
    assert len(found[1]) > len(found[0])


def test_a_row_compares_the_same_training_with_and_without_an_option():
    plain, bound = KEPT["floyd_warshall"], KEPT["floyd_warshall-edge_pointers-bound"]
    (row,) = table([bound, plain], every=True).splitlines()[2:]
    scores = [
        " | ".join(benchmark.scores_of(one, column) for one in (plain, bound)) for column in ("validation", "test")
    ]
    commit = bound["commit"][:7]
    assert row == f"| edge pointers bound | floyd_warshall | 300 | {scores[0]} | {scores[1]} | {commit} |"
    other = json.loads(json.dumps(plain))
    other["config"]["protocol"]["examples"] += 16
    with pytest.raises(ValueError, match="floyd_warshall was not trained by one protocol"):
        table([bound, other])


def test_a_row_is_trained_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tiny = replace(
        benchmark.PROTOCOL, train_lengths=(4,), validation_interval=16, validation_nodes=4, validation_examples=2,
        test_nodes=5, evaluation_examples=2,
    )  # fmt: skip
    for owner, name, value in (
        (fresh, "PROBES", 10), (benchmark, "PROTOCOL", tiny), (benchmark, "KEPT", tmp_path / "kept"),
        (benchmark, "UPDATES", {"floyd_warshall": 1}),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, value)
    benchmark.main(["train", "floyd_warshall", "--edge-pointers", "bound", "--runs", str(tmp_path / "runs")])
    (path,) = (tmp_path / "kept").iterdir()
    kept = json.loads(path.read_text())
    assert (path.stem, options_of(kept)) == ("floyd_warshall-edge_pointers-bound", {"edge_pointers": "bound"})
    assert [row["examples_of_best"] for row in kept["seeds"]] == [16, 16]


def test_scores_are_in_percent_with_the_mean_in_front():
    result = {"seeds": [{"validation": 0.5}, {"validation": 0.75}]}
    assert benchmark.scores_of(result, "validation") == "62.5 (50.0, 75.0)"
