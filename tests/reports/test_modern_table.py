"""Results of the modern protocol: never beside the paper's numbers."""

from dataclasses import asdict

from relational_transformer.processors.settings import find_settings
from relational_transformer.reports.comparison import compare
from relational_transformer.reports.results.archive import Archive
from relational_transformer.reports.results.measured import read_results
from relational_transformer.reports.results.provenance import describe_runs
from relational_transformer.reports.tables import build_table
from relational_transformer.training import PROTOCOLS
from tests.reports.fakes import all_tasks, write_result


def write_modern(folder, task: str, scores: list[float], model: str = "rt", **changes) -> None:
    settings = asdict(find_settings(model, modern=True))
    protocol = {**vars(PROTOCOLS["modern"]), **changes}
    write_result(folder, task, scores, model, settings, **protocol)


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
    assert notes == {("BFS", "RT"): (), ("DFS", "RT"): ("examples 3,200",), ("DFS", "triplet_gmpnn"): ()}


def test_the_average_is_there_with_all_thirty_tasks(tmp_path):
    for task in all_tasks()[:29]:
        write_modern(tmp_path / task, task, [0.8])
    average = build_table("modern", Archive(read_results(tmp_path))).cells[-1]
    assert (average.ours, average.present) == (None, "29 of 30 tasks")
    write_modern(tmp_path / "last", all_tasks()[29], [0.5])
    average = build_table("modern", Archive(read_results(tmp_path))).cells[-1]
    assert round(average.estimate.mean, 6) == 79.0
