"""Results of the modern protocol: never beside the paper's numbers."""

import json
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

from relational_transformer.clrs.classes import CLASSES
from relational_transformer.processors.settings import find_settings
from relational_transformer.reports.comparison import compare
from relational_transformer.reports.formats import to_markdown
from relational_transformer.reports.modern_table import published
from relational_transformer.reports.results.archive import Archive
from relational_transformer.reports.results.cell import Cell
from relational_transformer.reports.results.measured import read_results
from relational_transformer.reports.results.provenance import describe_runs
from relational_transformer.reports.tables import build_table
from relational_transformer.training import PROTOCOLS, find_schedule
from tests.reports.fakes import all_tasks, write_result


def write_modern(folder, task: str, scores: list[float], model: str = "rt", **changes) -> None:
    settings = asdict(find_settings(model, modern=True))
    protocol = {**vars(PROTOCOLS["modern"]), **changes}
    write_result(folder, task, scores, model, settings, **protocol)
    schedule = find_schedule(model, modern=True)
    if not schedule.is_constant:
        set_schedule(folder, asdict(schedule))


def set_schedule(folder, schedule: dict) -> None:
    result = json.loads((folder / "result.json").read_text())
    result["config"]["schedule"] = schedule
    (folder / "result.json").write_text(json.dumps(result))


def test_a_modern_result_is_in_the_modern_table_alone(tmp_path):
    write_result(tmp_path / "paper", "bfs", [0.9])
    write_modern(tmp_path / "modern", "bfs", [1.0, 0.98])
    write_modern(tmp_path / "other", "dfs", [0.5])
    archive = Archive(read_results(tmp_path))
    assert [cell.estimate.mean for cell in build_table("main", archive).cells if cell.estimate] == [90.0]
    text = compare(archive)
    assert text.count("90.00") == 1
    assert text.count("99.00") == 1
    assert "| BFS | RT | 2 | 99.00 ± 1.41 | - | - |" in text
    assert [row[3] for row in describe_runs(archive)] == ["modern protocol", "-", "modern protocol"]


def test_only_what_departs_from_the_modern_protocol_is_said_of_it(tmp_path):
    write_modern(tmp_path / "modern", "bfs", [1.0])
    write_modern(tmp_path / "shorter", "dfs", [1.0], examples=3_200)
    write_modern(tmp_path / "triplets", "dfs", [1.0], "triplet_gmpnn")
    table = build_table("modern", Archive(read_results(tmp_path)))
    notes = {(cell.row, cell.column): cell.ours.notes for cell in table.cells if cell.ours}
    assert notes == {("BFS", "RT"): (), ("DFS", "RT"): ("examples 3,200",), ("DFS", "Triplet-GMPNN"): ()}


def test_the_average_is_there_with_all_thirty_tasks(tmp_path):
    for task in all_tasks()[:29]:
        write_modern(tmp_path / task, task, [0.8])
    average = average_of_rt(tmp_path)
    assert (average.ours, average.present) == (None, "29 of 30 tasks")
    write_modern(tmp_path / "last", all_tasks()[29], [0.5])
    estimate = average_of_rt(tmp_path).estimate
    assert estimate is not None
    assert round(estimate.mean, 6) == 79.0


def average_of_rt(folder: Path) -> Cell:
    table = build_table("modern", Archive(read_results(folder)))
    return next(cell for cell in table.cells if (cell.row, cell.column) == ("Average", "RT"))


def test_published_averages_are_those_of_the_published_tasks_and_classes():
    methods = published()["methods"]
    for model, scores in published()["tasks"].items():
        assert set(scores) == set(all_tasks())
        assert round(fmean(scores.values()), 2) == methods[model]["average"]
    for model, scores in published()["classes"].items():
        over_tasks = sum(scores[group.value] * len(tasks) for group, tasks in CLASSES.items()) / len(all_tasks())
        assert round(over_tasks, 2) == methods[model]["average"]


def test_published_numbers_stand_beside_ours_with_what_they_were_trained_by(tmp_path):
    write_modern(tmp_path / "ours", "dfs", [0.9])
    write_modern(tmp_path / "triplets", "dfs", [0.5], "triplet_gmpnn")
    tables = [build_table(name, Archive(read_results(tmp_path))) for name in ("modern", "modern_classes")]
    text, of_classes = map(to_markdown, tables)
    for row in (
        "| DFS | RT | 1 | 90.00 | - | - |",
        "| DFS | Triplet-GMPNN | 1 | 50.00 | 47.79 | +2.21 |",
        "| DFS | G-ForgetNet | - | - | 74.31 | - |",
        "| Average | RT | - | missing (1 of 30 tasks) | - | - |",
        "| Average | M-ReNAR | - | - | 88.41 | - |",
    ):
        assert row in text
    assert "| Strings | M-ReNAR | - | - | 74.72 | - |" in of_classes
    assert "| Graphs | G-ForgetNet | - | - | 88.80 | - |" in of_classes
    for method in published()["methods"].values():
        assert f"{method['title']}: {method['protocol']}." in tables[0].remarks


def test_a_schedule_of_the_learning_rate_is_said_of_a_result(tmp_path):
    write_modern(tmp_path / "run", "bfs", [1.0])
    set_schedule(tmp_path / "run", {"warmup_steps": 100, "decay": "linear"})
    (cell, *_) = build_table("modern", Archive(read_results(tmp_path))).cells
    assert cell.ours is not None
    assert cell.ours.notes == ("decay linear, warmup steps 100",)
