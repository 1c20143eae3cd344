"""The paper's tables with made-up measurements in them."""

import csv
import io
from pathlib import Path

import pytest

from relational_transformer.clrs.classes import CORE_TASKS
from relational_transformer.reports.formats import to_csv, to_latex, to_markdown
from relational_transformer.reports.results.archive import Archive
from relational_transformer.reports.results.measured import read_results
from relational_transformer.reports.tables import TABLES, build_table, table_for
from tests.reports.fakes import all_tasks, write_paper_again, write_result


def build(name: str, folder: Path):
    return build_table(name, Archive(read_results(folder)))


def cell(table, row: str, column: str):
    (found,) = [one for one in table.cells if (one.row, one.column) == (row, column)]
    return found


def verdict(table, row: str, column: str) -> str:
    (found,) = [
        j for one, j in zip(table.cells, table.judgements, strict=True) if (one.row, one.column) == (row, column)
    ]
    return found.verdict


@pytest.mark.parametrize("name", TABLES)
def test_every_table_can_be_made_of_nothing_and_says_so(name: str, tmp_path):
    text = table_for(name, tmp_path)
    assert text.startswith("| ")
    says_so = "missing" in text or "Not measured:" in text
    assert says_so == (name != "parameters")  # which are counted, not measured


def test_a_wrong_name_lists_the_right_ones(tmp_path):
    with pytest.raises(ValueError, match="there is no table 'mian'; the tables are main, deviations, classes"):
        table_for("mian", tmp_path)


def test_the_paper_run_again_differs_nowhere_by_more_than_noise(tmp_path):
    """Thirty tasks drawn from the paper's own means and deviations; Holm's correction keeps false alarms out."""
    write_paper_again(tmp_path, ["rt", "mpnn"], all_tasks())
    table = build("main", tmp_path)
    assert table.comparisons == 2 * 31
    assert {one.verdict for one in table.judgements if one} == {"yes"}
    assert cell(table, "Average", "RT").estimate.mean == pytest.approx(66.18, abs=2)
    assert cell(table, "Average", "GAT-v1").ours is None
    assert "Not measured: Deep Sets; GAT-v1; GAT-v2; PGN-u; PGN-m; PGN-c." in to_markdown(table)


def test_a_mean_that_is_not_the_papers_is_found(tmp_path):
    write_result(tmp_path / "a", "bellman_ford", [0.80, 0.81, 0.79, 0.80])
    write_result(tmp_path / "b", "bfs", [0.99, 0.985, 0.995])
    table = build("main", tmp_path)
    assert verdict(table, "Bellman-Ford", "RT") == "no"
    assert verdict(table, "BFS", "RT") == "yes"
    assert "| 80.00 ± 0.82 | 94.24 ± 1.5 | -14.24 [" in to_markdown(table)
    assert "**no**" in to_markdown(table)


def test_an_average_needs_all_tasks_and_else_says_how_many_there_are(tmp_path):
    write_paper_again(tmp_path, ["rt"], all_tasks()[:29])
    average = cell(build("main", tmp_path), "Average", "RT")
    assert average.ours is None
    assert average.present == "29 of 30 tasks"
    assert "missing (29 of 30 tasks)" in table_for("main", tmp_path)


def test_a_class_is_the_average_of_its_tasks_and_the_last_line_that_of_the_classes(tmp_path):
    write_result(tmp_path / "a", "activity_selector", [0.8, 0.9])
    write_result(tmp_path / "b", "task_scheduling", [0.5])
    table = build("classes", tmp_path)
    greedy = cell(table, "Greedy", "RT")
    assert greedy.estimate.mean == pytest.approx((85 + 50) / 2)
    assert greedy.paper.mean == 85.32
    assert cell(table, "Average", "RT").present == "1 of 8 classes"


def test_departures_are_footnotes_of_every_table_and_are_not_judged(tmp_path):
    write_paper_again(tmp_path, ["rt_single_layer"], CORE_TASKS, examples=32_000)
    write_paper_again(tmp_path, ["rt"], CORE_TASKS, precision="tf32")
    table = build("single_layer", tmp_path)
    text = to_markdown(table)
    assert "¹ examples 32,000." in text
    assert "² precision tf32." in text
    assert verdict(table, "Average", "RT-1") == "-"
    assert verdict(table, "Average", "RT") == "yes"
    assert table.comparisons == 9


def test_training_set_sizes_and_tuning_are_averages_over_the_core_tasks(tmp_path):
    for task in CORE_TASKS:
        for size, score in ((1_000, 0.4), (10_000, 0.5)):
            for model in ("untuned_pgn", "untuned_pgn_masked"):
                write_result(
                    tmp_path / f"{task}-{model}-{size}", task, [score, score + 0.02], model, train_examples=size
                )
    sizes = build("train_size", tmp_path)
    assert cell(sizes, "1,000 examples", "PGN-u").estimate.mean == pytest.approx(41.0)
    assert cell(sizes, "10,000 examples", "PGN-c").estimate.mean == pytest.approx(51.0)
    untuned = build("untuned", tmp_path)
    assert cell(untuned, "No tuning", "PGN-u").estimate.mean == pytest.approx(51.0)
    assert cell(untuned, "Tuning", "PGN-u").ours is None
    again = build("published_baselines", tmp_path)
    assert cell(again, "Core tasks: run again by the paper", "PGN-c").estimate.mean == pytest.approx(41.0)
    assert verdict(again, "Core tasks: run again by the paper", "PGN-c") == "-"  # chosen by its scores: not judged


def test_parameters_are_the_papers_but_for_gat(tmp_path):
    table = build("parameters", tmp_path)
    different = {
        (one.row, one.column) for one, j in zip(table.cells, table.judgements, strict=True) if j.verdict == "no"
    }
    assert different == {("tuned", "GAT-v1"), ("untuned", "GAT-v1")}
    assert cell(table, "tuned", "RT").estimate.mean == 1_103_404


def test_speed_is_of_the_fastest_run_over_all_its_seeds(tmp_path):
    write_result(tmp_path / "a", "bellman_ford", [0.9] * 20, examples=16_000)  # in 100 seconds
    write_result(tmp_path / "b", "bellman_ford", [0.9], examples=32_000)
    text = table_for("speed", tmp_path)
    assert "| tuned | RT | 20 | 3,200.0¹ | 8.7 | 367.8 |" in text
    assert "¹ a machine, 20 seeds together, fp32." in text


def test_deviations_stand_beside_the_papers(tmp_path):
    write_result(tmp_path / "a", "bfs", [0.98, 1.0, 0.99])
    table = build("deviations", tmp_path)
    assert cell(table, "BFS", "RT").estimate.mean == pytest.approx(1.0)
    assert cell(table, "Over all runs", "RT").present == "1 of 30 tasks"


def test_the_deviation_over_all_runs_is_taken_over_all_runs(tmp_path):
    write_paper_again(tmp_path, ["rt"], all_tasks(), seeds=20)
    over_all = cell(build("deviations", tmp_path), "Over all runs", "RT")
    assert over_all.estimate.mean == pytest.approx(over_all.paper.mean, abs=1.5)


def test_csv_has_every_cell_in_full(tmp_path):
    write_result(tmp_path / "a", "bfs", [0.98, 1.0, None])
    rows = list(csv.DictReader(io.StringIO(to_csv(build("main", tmp_path)))))
    assert len(rows) == 31 * 8
    (bfs,) = [row for row in rows if (row["task"], row["model"]) == ("BFS", "RT")]
    assert (bfs["seeds"], bfs["failed_seeds"], float(bfs["ours"])) == ("2", "1", pytest.approx(99.0))
    assert float(bfs["low_95"]) < float(bfs["difference"]) < float(bfs["high_95"])
    (bridges,) = [row for row in rows if (row["task"], row["model"]) == ("Bridges", "RT")]
    assert (bridges["ours"], bridges["paper"], bridges["notes"]) == ("", "37.88", "missing")


def test_latex_has_as_many_cells_in_every_row_and_escapes_what_it_must(tmp_path):
    write_result(tmp_path / "a", "bfs", [0.98, 1.0], precision="bf16")
    text = to_latex(build("main", tmp_path))
    body = text.partition(r"\endhead")[2].partition(r"\bottomrule")[0].strip().splitlines()
    assert {line.count(" & ") for line in body} == {7}
    assert all(line.endswith(r"\\") for line in body)
    assert r"99.00 $\pm$ 1.41\textsuperscript{1}" in text
    assert r"ours (\%)" in text


def test_a_cell_of_which_every_seed_failed_says_so(tmp_path):
    write_result(tmp_path / "a", "bfs", [None, None])
    assert "| BFS | RT | - (2 failed) | all seeds failed | 99.14 ± 0.7 | - | - | - |" in table_for("main", tmp_path)
