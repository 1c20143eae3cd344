"""The table of the README: all that was measured."""

from relational_transformer.clrs.classes import CORE_TASKS
from relational_transformer.reports.comparison import compare
from relational_transformer.reports.paper import published
from relational_transformer.reports.results.archive import Archive
from relational_transformer.reports.results.measured import read_results
from tests.reports.fakes import all_tasks, write_paper_again, write_result


def rows(folder) -> list[str]:
    return [line for line in compare(Archive(read_results(folder))).splitlines()[2:] if line.startswith("| ")]


def test_a_row_tells_the_difference_and_whether_it_is_in_the_noise(tmp_path):
    write_result(tmp_path / "a", "bellman_ford", [0.95, 0.96, 0.95])
    assert rows(tmp_path)[0].startswith("| Bellman-Ford | RT | 3 | 95.33 ± 0.58 | 94.24 ± 1.5 | +1.09 [")
    assert rows(tmp_path)[0].endswith("| yes |")


def test_every_result_has_its_row_and_what_was_run_differently_is_named(tmp_path):
    write_result(tmp_path / "a", "insertion_sort", [0.40, 0.42], examples=3200)
    write_result(tmp_path / "b", "insertion_sort", [0.40, 0.42])
    write_result(tmp_path / "c", "bfs", [0.99], settings={"hidden_size": 24, "learning_rate": 1e-3})
    text = compare(Archive(read_results(tmp_path)))
    bfs, *sorts, average = rows(tmp_path)
    assert {row.split("|")[1].strip() for row in sorts} == {"Insertion Sort"}
    assert sorted(row.split("|")[-2].strip() for row in sorts) == ["**no**", "-"]
    assert bfs.endswith("| - |")
    assert "hidden size 24, learning rate 0.001." in text
    assert "examples 3,200." in text
    assert average.startswith("| Average | RT | - | missing (2 of 30 tasks) | 66.18 |")


def test_the_average_of_the_core_tasks_is_there_when_they_are(tmp_path):
    for model, tasks in {
        "rt": CORE_TASKS,
        "mpnn": CORE_TASKS,
        "transformer": CORE_TASKS,
        "pgn": CORE_TASKS[1:],
    }.items():
        for task in tasks:
            paper = published(task, model)
            assert paper is not None
            write_result(tmp_path / f"{task}-{model}", task, [paper.mean / 100] * 2, model)
    averages = [row.split(" | ") for row in rows(tmp_path) if "core tasks" in row]
    assert [(row[1], row[2], row[4]) for row in averages] == [
        ("MPNN", "2", "59.75"),
        ("Transformer", "2", "42.34"),
        ("RT", "2", "81.30"),
    ]
    assert all(abs(float(ours.split(" ")[0]) - float(paper)) < 0.02 for _, _, _, ours, paper, *_ in averages)


def test_the_average_is_there_when_all_tasks_are(tmp_path):
    write_paper_again(tmp_path, ["rt"], all_tasks(), seeds=2)
    assert rows(tmp_path)[-1].startswith("| Average | RT | 2 | 6")


def test_nothing_measured_is_said_so(tmp_path):
    assert compare(Archive(read_results(tmp_path))) == "Nothing was measured yet.\n"


def test_a_model_that_the_paper_does_not_know_is_shown_without_a_comparison(tmp_path):
    write_result(tmp_path / "a", "bfs", [0.9, 0.8], "gat_full")
    assert rows(tmp_path)[0] == "| BFS | gat_full | 2 | 85.00 ± 7.07 | - | - | - | - |"
