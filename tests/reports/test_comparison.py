import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from relational_transformer.commands.report import BEGIN, END, ReportArguments, insert, run
from relational_transformer.processors.settings import TUNED
from relational_transformer.reports.comparison import compare
from relational_transformer.reports.measured import read_results
from relational_transformer.training import Protocol, TrainConfig


def write_result(path: Path, task: str, scores: dict[int, float | None], **protocol) -> None:
    config = TrainConfig(task, "rt", TUNED["rt"], Protocol(**protocol), tuple(scores))
    rows = [{"seed": seed, "test": score, "failed": score is None} for seed, score in scores.items()]
    path.mkdir(parents=True)
    (path / "result.json").write_text(json.dumps({"config": asdict(config), "seeds": rows, "hardware": "a machine"}))


def test_seeds_of_equal_runs_are_put_together(tmp_path):
    write_result(tmp_path / "a", "bfs", {0: 0.98, 1: 1.0})
    write_result(tmp_path / "b", "bfs", {2: 0.96, 3: None})
    write_result(tmp_path / "c", "bfs", {0: 0.5}, examples=1000)
    together, other = sorted(read_results(tmp_path), key=lambda result: -len(result.scores))
    assert together.mean == pytest.approx(98.0)
    assert together.deviation == pytest.approx(2.0)
    assert together.failed == (3,)
    assert other.deviation is None


def test_a_row_tells_the_difference_and_whether_it_is_within_the_noise(tmp_path):
    write_result(tmp_path / "a", "bellman_ford", {0: 0.95, 1: 0.96})
    write_result(tmp_path / "b", "insertion_sort", {0: 0.40, 1: 0.42}, examples=3200)
    good, bad = compare(read_results(tmp_path)).splitlines()[2:]
    assert good == "| Bellman-Ford | rt | 2 | 95.50 ± 0.71 | 94.24 ± 1.5 | +1.26 | yes |"
    assert bad.startswith("| Insertion Sort (examples 3,200) | rt | 2 | 41.00")
    assert bad.endswith("| - |")  # another protocol: not judged


def test_a_mean_outside_the_noise_is_said_so(tmp_path):
    write_result(tmp_path / "a", "insertion_sort", {0: 0.40, 1: 0.42})
    assert compare(read_results(tmp_path)).splitlines()[2].endswith("| **no** |")


def test_other_settings_than_the_models_own_are_named(tmp_path):
    config = TrainConfig("bfs", "rt", replace(TUNED["rt"], hidden_size=24, learning_rate=1e-3), Protocol(), (0,))
    rows = [{"seed": 0, "test": 0.99, "failed": False}]
    (tmp_path / "result.json").write_text(
        json.dumps({"config": asdict(config), "seeds": rows, "hardware": "a machine"})
    )
    row = compare(read_results(tmp_path)).splitlines()[2]
    assert row.startswith("| BFS (hidden size 24, learning rate 0.001) | rt | 1 |")
    assert row.endswith("| - |")


def test_the_table_goes_between_the_marks_and_nowhere_else(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    insert(readme, "new\n")
    assert readme.read_text() == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    readme.write_text("no marks")
    with pytest.raises(ValueError, match="has no place for the table"):
        insert(readme, "new\n")
    assert readme.read_text() == "no marks"


def test_damaged_results_and_missing_folders_are_named(tmp_path):
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(ValueError, match=r"result.json is no result"):
        run(ReportArguments(results=tmp_path))
    with pytest.raises(FileNotFoundError):
        run(ReportArguments(results=tmp_path / "nowhere"))
