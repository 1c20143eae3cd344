"""What the README says is true: its code runs, and the files and commands it names exist."""

import re
import tomllib
from pathlib import Path

import pytest

from relational_transformer import cli

REPOSITORY = Path(__file__).parents[1]
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
README = PAGES[0].read_text()


def blocks(language: str) -> list[str]:
    """Fenced code blocks of the README in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def test_quickstart_is_short_and_runs(capsys: pytest.CaptureFixture[str]):
    (quickstart,) = blocks("python")
    assert len([line for line in quickstart.splitlines() if line.strip()]) <= 10
    exec(compile(quickstart, "README.md", "exec"), {})
    assert capsys.readouterr().out == "torch.Size([2, 10, 64]) torch.Size([2, 10, 10, 32])\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path):
    targets = [link for link in re.findall(r"\]\(([^)]+)\)", page.read_text()) if not link.startswith("http")]
    missing = [target for target in targets if not (page.parent / target.partition("#")[0]).exists()]
    assert not missing


@pytest.mark.parametrize(
    ("page", "table"), [("docs/results.md", []), ("README.md", ["--table", "edge_updates", "--models", "rt"])]
)
def test_tables_are_those_of_the_recorded_results(page: str, table: list[str], tmp_path: Path):
    text = (REPOSITORY / page).read_text()
    copy = tmp_path / "page.md"
    copy.write_text(text)
    assert cli.main(["report", str(REPOSITORY / "results"), *table, "--write", str(copy)]) == 0
    assert copy.read_text() == text, f"rt report results {' '.join(table)} --write {page}"


def test_picture_is_that_of_the_recorded_results(tmp_path: Path):
    assert cli.main(["report", str(REPOSITORY / "results"), "--out", str(tmp_path / "report")]) == 0
    picture = REPOSITORY / "docs/images/edge-updates.svg"
    assert picture.read_text() == (tmp_path / "report/figures/edge_updates.svg").read_text()


def test_readme_is_short_enough_to_finish():
    """At most 900 words of prose and tables, without code and the generated table."""
    prose = re.sub(r"^```.*?^```|<!-- results: begin.*results: end -->", "", README, flags=re.DOTALL | re.MULTILINE)
    assert len(prose.split()) <= 900


def test_layout_names_folders_that_exist():
    layout = README.partition("## Layout")[2].partition("\n## ")[0]
    folders = re.findall(r"^\| `([^`]+)` \|", layout, flags=re.MULTILINE)
    assert {"tests/", "benchmarks/", "examples/", "docs/"} <= set(folders)
    assert [folder for folder in folders if not (REPOSITORY / folder).is_dir()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_exist(page: Path):
    makefile = (REPOSITORY / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, flags=re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", page.read_text(), flags=re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_extras_exist(page: Path):
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    lists = re.findall(r"pip\s+install\s+'\.\[([^\]]+)\]'", page.read_text())
    assert {name for names in lists for name in names.split(",")} <= set(extras)


def test_table_of_what_is_inside_names_extras_that_exist():
    inside = README.partition("## What is inside")[2].partition("\n## ")[0]
    column = [row.split("|")[2] for row in inside.splitlines() if row.startswith("| ")][1:]
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {name for cell in column for name in re.findall(r"`(\w+)`", cell)}
    assert {"clrs", "tune", "molecules", "report"} <= named <= set(extras)
