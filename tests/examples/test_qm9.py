"""The QM9 example learns from a file in the format of QM9, and says what to do where there is none."""

import re
import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch_geometric")
pytest.importorskip("safetensors")

from relational_transformer.molecules import MoleculeRegressor
from tests.molecules.molecules import make_molecules, write_ready_made

EXAMPLE = Path(__file__).parents[2] / "examples" / "qm9.py"
SMALL = ["--epochs", "10", "--batch-size", "8", "--layers", "2", "--size", "32", "--learning-rate", "3e-3"]


def test_it_learns_more_than_the_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The target is one for each double bond and the mean distance of the atoms: edges alone know it."""
    monkeypatch.setitem(sys.modules, "rdkit", None)
    write_ready_made(tmp_path / "QM9", make_molecules(240))
    arguments = ["--folder", str(tmp_path / "QM9"), "--target", "gap", "--out", str(tmp_path / "model")]
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *arguments, *SMALL, "--device", "cpu"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr().out
    found = re.search(r"test error of gap: ([\d.]+) eV \(of the mean: ([\d.]+) eV\)", printed)
    assert found is not None, printed
    assert float(found.group(1)) < 0.7 * float(found.group(2)), printed
    assert MoleculeRegressor.from_pretrained(tmp_path / "model").readout == "mean"  # a gap does not add up
