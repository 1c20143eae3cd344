"""`rt report`."""

import pytest

from relational_transformer.commands.report import BEGIN, END, ReportArguments, insert, run
from tests.reports.fakes import write_result


def test_the_table_goes_between_the_marks_and_nowhere_else(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_result(tmp_path / "runs" / "a", "bfs", [0.99])
    run(ReportArguments(results=tmp_path / "runs", write=readme))
    text = readme.read_text()
    assert text.startswith(f"before\n{BEGIN}\n| task | model |")
    assert text.endswith(f"\n{END}\nafter\n")
    assert "| BFS | RT | 1 | 99.00 |" in text
    assert "old" not in text


def test_a_markdown_file_gets_no_other_format(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(text := f"{BEGIN}\nold\n{END}\n")
    write_result(tmp_path / "runs" / "a", "bfs", [0.99])
    with pytest.raises(ValueError, match="into a Markdown file: leave out --format csv"):
        run(ReportArguments(results=tmp_path / "runs", write=readme, format="csv"))
    assert readme.read_text() == text


def test_models_of_a_table_are_chosen(tmp_path, capsys):
    write_result(tmp_path / "a", "bfs", [0.99])
    run(ReportArguments(results=tmp_path, table="main", models=("rt", "mpnn")))
    rows = capsys.readouterr().out.partition("\n\n")[0].splitlines()[2:]
    assert {row.split(" | ")[1] for row in rows} == {"RT"}  # nothing was measured of MPNN, which a remark says
    with pytest.raises(ValueError, match=r"the table main has no model 'rtt'; it has Deep Sets, .*RT"):
        run(ReportArguments(results=tmp_path, table="main", models=("rtt",)))
    with pytest.raises(ValueError, match="--models selects models of one table: name it with --table"):
        run(ReportArguments(results=tmp_path, models=("rt",)))


def test_the_table_of_one_model_leaves_out_what_all_rows_share(tmp_path, capsys):
    write_result(tmp_path / "a", "bfs", [0.99, 0.98])
    write_result(tmp_path / "b", "dfs", [0.5, 0.6])
    run(ReportArguments(results=tmp_path, table="main", models=("rt",)))
    printed = capsys.readouterr().out
    assert printed.startswith("| task | seeds | ours (%) | paper | difference [95%] | in the noise |\n|---|---:|---:|")
    assert "| BFS | 2 | 98.50 ± 0.71 |" in printed
    assert "In all rows: model RT." in printed


def test_a_file_without_marks_is_left_alone(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("no marks")
    with pytest.raises(ValueError, match="has no place for the table"):
        insert(readme, "new\n")
    assert readme.read_text() == "no marks"


@pytest.mark.parametrize(
    "text",
    [
        f"mine\n{END}\nmine too\n{BEGIN}\n",
        f"{BEGIN}\n{END}\nmine\n{BEGIN}\n{END}\n",
        f"{BEGIN}\nmine\n{BEGIN}\n{END}\n",
        f"{BEGIN}\n{END}\nmine\n{END}\n",
    ],
)
def test_marks_in_disorder_cost_nobody_his_text(tmp_path, text):
    readme = tmp_path / "README.md"
    readme.write_text(text)
    with pytest.raises(ValueError, match="each once and in this order"):
        insert(readme, "new\n")
    assert readme.read_text() == text


@pytest.mark.parametrize(
    ("form", "start"), [("markdown", "| task |"), ("csv", "table,task,"), ("latex", "\\begin{longtable}")]
)
@pytest.mark.parametrize("table", [None, "main"])
def test_a_table_is_printed_in_the_format_asked_for(tmp_path, capsys, form, start, table):
    write_result(tmp_path / "a", "bfs", [0.99])
    run(ReportArguments(results=tmp_path, table=table, format=form))
    assert capsys.readouterr().out.startswith(start)


def test_missing_folders_are_named(tmp_path):
    with pytest.raises(FileNotFoundError):
        run(ReportArguments(results=tmp_path / "nowhere"))


def test_what_a_link_leads_to_gets_the_table_and_the_link_stays(tmp_path):
    (tmp_path / "docs").mkdir()
    page, link = tmp_path / "docs" / "page.md", tmp_path / "README.md"
    page.write_text(f"mine\n{BEGIN}\nold\n{END}\n")
    link.symlink_to(page)
    insert(link, "new\n")
    assert page.read_text() == f"mine\n{BEGIN}\nnew\n{END}\n"
    assert link.is_symlink()
