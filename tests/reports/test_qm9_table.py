"""The table of QM9: ours beside published errors, and what was trained on fewer molecules says so."""

import json
from dataclasses import replace
from pathlib import Path

from relational_transformer.molecules import TARGETS, MoleculeSettings, QM9Config, QM9Protocol
from relational_transformer.reports.comparison import compare
from relational_transformer.reports.qm9_table import published
from relational_transformer.reports.results.archive import Archive
from relational_transformer.reports.results.measured import read_results
from relational_transformer.reports.tables import build_table, table_for
from tests.reports.fakes import PROVENANCE


def write(folder: Path, task: str, scores: list[float], **protocol) -> None:
    usual = QM9Config(task, MoleculeSettings(), QM9Protocol(), seeds=tuple(range(len(scores))), precision="fp32")
    config = replace(usual, protocol=replace(usual.protocol, **protocol))
    rows = [{"seed": seed, "test": score, "failed": False} for seed, score in enumerate(scores)]
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"config": config.as_dict(), "seeds": rows, **PROVENANCE}))


def test_every_published_error_is_of_a_target():
    assert all(set(numbers["mean"]) <= set(TARGETS) for numbers in published().values())
    assert all(numbers["source"] for numbers in published().values())


def test_ours_stands_beside_every_published_error_of_the_target(tmp_path: Path):
    write(tmp_path / "gap", "qm9_gap", [50.0, 52.0], examples=1_100_000)
    table = build_table("qm9", Archive(read_results(tmp_path)))
    assert table.rows == ("gap (meV)",)
    assert table.columns == tuple(published())
    assert "| gap (meV) | SchNet | 2 | 51.000 ± 1.414 | 63.000 | -12.000 |" in table_for("qm9", tmp_path)
    assert "QM9" not in compare(Archive([]))
    assert "gap (meV)" in compare(Archive(read_results(tmp_path)))


def test_fewer_molecules_are_named(tmp_path: Path):
    write(tmp_path / "mu", "qm9_mu", [0.1], train_molecules=5_000, test_molecules=1_000)
    assert "test molecules 1,000, train molecules 5,000" in table_for("qm9", tmp_path)


def test_targets_without_a_result_are_missing_where_there_is_none():
    table = build_table("qm9", Archive([]))
    assert len(table.rows) == 12
    assert all(cell.ours is None for cell in table.cells)
