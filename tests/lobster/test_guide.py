"""The code of docs/lobster.md runs, and its numbers are those that are measured."""

import re
from pathlib import Path

import pytest

from relational_transformer.lobster import LobsterProtocol
from relational_transformer.lobster.oracle import CAPS, equivalent_cap, oracle_loss

GUIDE = (Path(__file__).parents[2] / "docs" / "lobster.md").read_text()


def test_code_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"^```python\n(.*?)^```", GUIDE, flags=re.DOTALL | re.MULTILINE):
        exec(compile(block, "lobster.md", "exec"), names)
    nodes, _ = map(float, capsys.readouterr().out.splitlines()[0].split())
    assert nodes == pytest.approx(124, abs=1)
    assert (tmp_path / "runs" / "lobster-small" / "result.json").is_file()


def test_the_oracles_of_the_guide_are_those_measured():
    distances = LobsterProtocol(evaluation_examples=10_000).test_graphs().distances
    row = " | ".join(f"{oracle_loss(distances, cap):.3f}" for cap in CAPS)
    assert f"| relative loss | {row} |" in GUIDE
    assert f"seeing {equivalent_cap(distances, 0.22):.0f} steps far" in GUIDE
