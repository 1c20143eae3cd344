"""The guide to a processor of one's own: its example runs, and the page shows what runs."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from relational_transformer.processors import PROCESSORS

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples" / "add_a_processor.py"
PAGE = REPOSITORY / "docs" / "add-a-processor.md"


@pytest.mark.slow
def test_the_example_trains(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "--steps", "30"])
    monkeypatch.setitem(PROCESSORS, "gossip", PROCESSORS["mpnn"])  # so that it is taken out again afterwards
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    found = re.search(r"of 8 nodes: ([\d.]+)%, of 16: ([\d.]+)%", capsys.readouterr().out)
    assert found is not None
    assert float(found.group(1)) > 80  # a random guess among 8 nodes is right once in eight


def test_the_page_shows_the_code_of_the_example() -> None:
    shown = PAGE.read_text().split("```python\n")[1].split("```")[0]
    example = EXAMPLE.read_text()
    lines = [line for line in shown.splitlines() if line and "def forward" not in line]
    assert len(lines) > 15
    assert [line for line in lines if line not in example] == []
