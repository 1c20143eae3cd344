"""The code of docs/lobster.md runs, and its numbers are those that are measured."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from relational_transformer.commands.report import BEGIN, END, ReportArguments, run
from relational_transformer.lobster import LobsterProtocol
from relational_transformer.lobster.oracle import CAPS, equivalent_cap, oracle_loss
from relational_transformer.reports.tables import table_for
from tests.lobster.small import PROTOCOL, run_to_the_end, small_config

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "lobster.md").read_text()


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


def test_the_results_of_the_guide_are_those_in_the_repository():
    """Stale? `rt report results --table lobster --write docs/lobster.md` makes them again."""
    _, _, rest = GUIDE.partition(BEGIN)
    assert rest.partition(END)[0] == f"\n{table_for('lobster', ROOT / 'results')}"


def test_dropped_run_folders_and_one_command_make_the_results_of_the_guide(tmp_path: Path):
    """A fraction of the schedule is told as one, with the losses of every seed, the paper's and the oracles'."""
    for model in ("rt", "gat"):
        protocol = replace(PROTOCOL, examples=40)
        _, result = run_to_the_end(small_config(model, protocol=protocol), tmp_path / "results" / "lobster" / model)
    guide = tmp_path / "lobster.md"
    guide.write_text(GUIDE)
    run(ReportArguments(results=tmp_path / "results", table="lobster", write=guide))
    text = guide.read_text()
    assert "GAT: 40 of 2,000,000 training graphs a seed (0.0% of the schedule). At size 14 (in brackets at" in text
    for row in result["seeds"]:
        assert f"seed {row['seed']} {row['test']:.3f} ({row['test_in_distribution']:.3f})" in text
    assert re.search(r"\| Lobster graphs of size 100 \| GAT \| 2 \| [\d.]+ ± [\d.]+¹ \| 0.28 \|", text)
    assert "examples 40" in text  # among what differs from the paper's run, so that it is not judged
    assert "Not measured: GCN." in text
    assert text.startswith(GUIDE.partition(BEGIN)[0])
