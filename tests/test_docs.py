"""The documentation site: its pages are in the menu, its code runs, and its two tools do what they say."""

import importlib
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import relational_transformer

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
RUNNABLE = (
    "relational-attention.md",
    "quickstart.md",
    "molecules.md",
    "saving.md",
    "look-inside.md",
    "larger-graphs.md",
)

sys.path.insert(0, str(DOCS / "tools"))


def menu() -> str:
    return (REPOSITORY / "mkdocs.yml").read_text().partition("\nnav:\n")[2].partition("\nmarkdown_extensions:")[0]


def test_every_page_is_in_the_menu_once():
    named = sorted(re.findall(r": (\S+\.md)$", menu(), flags=re.MULTILINE))
    pages = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    assert named == pages


def test_every_room_with_public_names_has_a_page_of_reference():
    for module in pkgutil.iter_modules(relational_transformer.__path__):
        room = importlib.import_module(f"relational_transformer.{module.name}") if module.ispkg else None
        if room is not None and getattr(room, "__all__", ()):
            page = DOCS / "api" / f"{module.name}.md"
            assert f"::: relational_transformer.{module.name}\n" in page.read_text()


@pytest.mark.parametrize("page", RUNNABLE)
def test_code_of_a_guide_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """From top to bottom; a comment after a print is what it prints."""
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), names)
        promised = re.findall(r"^ *print\(.*\)  # (.*)$", block, flags=re.MULTILINE)
        assert capsys.readouterr().out.splitlines()[: len(promised)] == promised


def test_mathematics_becomes_mathml():
    pytest.importorskip("latex2mathml")
    from mathml import on_page_content

    page = '<p><span class="arithmatex">\\(a &lt; e_{ij}\\)</span></p><div class="arithmatex">\\[\nx\n\\]</div>'
    made = on_page_content(page, page=None)
    assert "arithmatex" not in made
    assert "<msub><mi>e</mi>" in made
    assert made.count("<math") == 2
    assert made.count('display="block"') == 1


def test_examples_in_docstrings_become_blocks_of_code():
    pytest.importorskip("griffe")
    from doctest_blocks import fenced

    text = "Adds.\n\n>>> for x in y:\n...     print(x)\n1\n2\n\nAnd so on.\n\n>>> 3\n3"
    assert fenced(text) == (
        "Adds.\n\n```pycon\n>>> for x in y:\n...     print(x)\n1\n2\n```\n\nAnd so on.\n\n```pycon\n>>> 3\n3\n```\n"
    )
