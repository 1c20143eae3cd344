"""The report as a folder, and its page in a real browser."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from relational_transformer.clrs.classes import CORE_TASKS
from relational_transformer.commands.report import ReportArguments, run
from relational_transformer.reports.bundle import write_report
from relational_transformer.reports.results.archive import Archive
from relational_transformer.reports.results.measured import read_results
from relational_transformer.reports.tables import TABLES
from tests.reports.browser import look_at
from tests.reports.fakes import all_tasks, write_paper_again, write_result

PHONE, DESKTOP = 390, 1280


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    """A report on made-up results: RT on all tasks, other models on some, one result far from the paper's."""
    results, out = tmp_path_factory.mktemp("results"), tmp_path_factory.mktemp("report")
    write_paper_again(results, ["rt"], all_tasks(), seeds=4, curves=True, precision="tf32")
    write_paper_again(results, ["mpnn"], all_tasks()[:4], seeds=1)
    write_paper_again(results, ["transformer"], CORE_TASKS, seeds=3, examples=32_000)
    write_result(results / "far", "bfs", [0.3, 0.31, 0.3], "gat")
    write_result(results / "failed", "bfs", [None], "gatv2")
    write_report(out, Archive(read_results(results)))
    return out


def test_the_folder_holds_the_page_every_table_and_the_pictures(report):
    assert {path.stem for path in (report / "tables").glob("*.md")} == {"results", *TABLES}
    for ending in ("csv", "tex"):
        assert len(list((report / "tables").glob(f"*.{ending}"))) == 1 + len(TABLES)
    pictures = {path.stem for path in (report / "figures").glob("*.svg")}
    assert {"figure-1", "histogram-naive-string-matcher", "histogram-all-tasks", "transformer", "lobster"} <= pictures
    assert {f"curves-{task}" for task in all_tasks()} <= pictures


def test_pictures_are_whole_documents_of_their_own(report):
    for path in (report / "figures").glob("*.svg"):
        root = ElementTree.fromstring(path.read_text())
        assert root.tag.endswith("svg")
        assert root.find("{http://www.w3.org/2000/svg}style") is not None


def test_the_page_names_nothing_outside_itself(report):
    text = (report / "index.html").read_text()
    outside = re.findall(r"""(?:src|href)=["'](?!#|data:)([^"']*)""", text)
    assert outside == []
    assert "url(" not in text
    assert "<script" not in text
    assert set(re.findall(r"https?://[^\s\"'<]+", text)) == {"http://www.w3.org/2000/svg"}


def test_the_page_says_what_is_missing_what_failed_and_what_departs(report):
    text = (report / "index.html").read_text()
    assert "4 of 30 tasks" in text  # MPNN's average
    assert "all seeds failed" in text
    assert "examples 32,000." in text
    assert "precision tf32." in text
    assert re.search(r'<td class="no"><b>30.33</b>', text), "a result far from the paper's is not marked"


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_a_browser_shows_it_all_without_complaint(report, tmp_path, width: int):
    seen = look_at(report / "index.html", width, tmp_path)
    assert seen.console == []
    assert seen.page["title"] == "Relational Transformer: results"
    assert seen.page["dead_links"] == []
    assert set(TABLES) <= set(seen.page["sections"])
    assert len(seen.page["tables"]) == len(TABLES)
    assert min(seen.page["tables"]) >= 2
    assert len(seen.page["pictures"]) == len(list((report / "figures").glob("*.svg")))
    assert all(across > 250 and down > 50 for across, down in seen.page["pictures"])
    assert seen.page["scroll_width"] <= width, "the page is wider than the screen"
    assert seen.page["text_size"] >= 16


def test_the_check_above_can_fail(report, tmp_path):
    """The same page with a picture from elsewhere, a script that the page forbids, and something wider than a phone."""
    bad = '<img src="https://localhost/picture.png"><script>go()</script><div style="width: 2000px">wide</div></main>'
    page = tmp_path / "bad.html"
    page.write_text((report / "index.html").read_text().replace("</main>", bad))
    seen = look_at(page, PHONE, tmp_path)
    assert ["Content Security Policy" in line for line in seen.console] == [True, True]
    assert seen.page["scroll_width"] > PHONE


def test_a_report_of_nothing_shows_the_papers_numbers_and_that_all_else_is_missing(tmp_path, capsys):
    (tmp_path / "results").mkdir()
    run(ReportArguments(results=tmp_path / "results", out=tmp_path / "report"))
    text = (tmp_path / "report" / "index.html").read_text()
    assert "66.18" in text
    assert "Missing: no metrics.jsonl lies beside a result." in text
    assert capsys.readouterr().out.startswith(f"report   {tmp_path / 'report' / 'index.html'}")
