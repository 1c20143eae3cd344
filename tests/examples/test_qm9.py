"""The QM9 example learns from a file in the format of QM9, and says what to do where there is none."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch_geometric")
pytest.importorskip("safetensors")

from torch_geometric.datasets import QM9

from relational_transformer.molecules import MoleculeRegressor
from tests.molecules.molecules import make_molecules, write_ready_made

SMALL = ["--epochs", "10", "--batch-size", "8", "--layers", "2", "--size", "32", "--learning-rate", "3e-3"]


def test_it_learns_more_than_the_mean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_example: Callable[..., str]):
    """The target is one for each double bond and the mean distance of the atoms: edges alone know it."""
    monkeypatch.setitem(sys.modules, "rdkit", None)
    write_ready_made(tmp_path / "QM9", make_molecules(240))
    arguments = ["--folder", tmp_path / "QM9", "--target", "gap", "--out", tmp_path / "model", "--device", "cpu"]
    printed = run_example("qm9.py", *arguments, *SMALL)
    found = re.search(r"test error of gap: ([\d.]+) eV \(of the mean: ([\d.]+) eV\)", printed)
    assert found is not None, printed
    assert float(found.group(1)) < 0.7 * float(found.group(2)), printed
    assert MoleculeRegressor.from_pretrained(tmp_path / "model").readout == "mean"  # a gap does not add up


def test_a_folder_without_data_is_told_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run_example: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
):
    def fail(self: QM9) -> None:
        raise OSError("no network")

    monkeypatch.setattr(QM9, "download", fail)
    with pytest.raises(SystemExit, match="2"):
        run_example("qm9.py", "--folder", tmp_path / "QM9")
    assert "cannot be downloaded (no network): where there is a network, run" in capsys.readouterr().err
