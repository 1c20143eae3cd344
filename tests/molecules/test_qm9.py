"""QM9 is read from both of PyG's raw formats, and what is wrong with a folder is told in one sentence."""

import sys
from pathlib import Path
from urllib.error import URLError

import pytest
import torch

pytest.importorskip("torch_geometric")

from torch_geometric.datasets import QM9

from relational_transformer.molecules import TARGETS, find_target, load_qm9, split_indices
from tests.molecules.molecules import make_molecules, write_original, write_ready_made


@pytest.fixture
def without_rdkit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)


@pytest.mark.usefixtures("without_rdkit")
def test_reads_the_ready_made_file(tmp_path: Path):
    molecules = make_molecules(12)
    write_ready_made(tmp_path, molecules)
    data = load_qm9(tmp_path)
    assert len(data) == 12
    assert data[3].x.shape == (len(molecules[3].types), 11)
    assert torch.equal(data[3].pos, molecules[3].positions)
    assert torch.equal(data[3].y[0], molecules[3].properties)
    assert data[3].edge_attr.shape == (2 * len(molecules[3].bonds), 4)


def test_reads_the_original_files_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The second molecule is named as uncharacterised, and left out."""
    pytest.importorskip("rdkit")
    molecules = make_molecules(5)
    write_original(tmp_path / "original", molecules, uncharacterised=2)
    original = load_qm9(tmp_path / "original")
    monkeypatch.setitem(sys.modules, "rdkit", None)
    write_ready_made(tmp_path / "ready", [molecule for index, molecule in enumerate(molecules) if index != 1])
    ready = load_qm9(tmp_path / "ready")
    assert len(original) == len(ready) == 4
    for got, expected in zip(original, ready, strict=True):
        for name in ("x", "pos", "edge_index", "edge_attr"):
            torch.testing.assert_close(got[name], expected[name])
        torch.testing.assert_close(got.y, expected.y, rtol=1e-5, atol=1e-5)


def test_says_how_to_get_it_where_it_cannot_be_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(self: QM9) -> None:
        raise URLError("no network")

    monkeypatch.setattr(QM9, "download", fail)
    with pytest.raises(
        ValueError, match=r"QM9 is not in .*\(.*no network.*\): where there is a network, run `python -c"
    ):
        load_qm9(tmp_path / "QM9")


@pytest.mark.usefixtures("without_rdkit")
def test_unpickles_nothing(tmp_path: Path):
    """PyG itself would warn and then unpickle a file that holds more than tensors."""
    (tmp_path / "raw").mkdir()
    torch.save([Path("anything")], tmp_path / "raw" / "qm9_v3.pt")
    with pytest.raises(ValueError, match="holds a file that is more than plain tensors, and is not loaded"):
        load_qm9(tmp_path)


def test_pyg_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.datasets", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[pyg\]'"):
        load_qm9(tmp_path)


def test_targets_are_all_columns_once():
    assert [target.column for target in TARGETS.values()] == list(range(19))
    with pytest.raises(ValueError, match="no target of QM9 is called 'mass'; there are mu, alpha"):
        find_target("mass")


def test_split_is_by_the_seed_and_leaves_nobody_out():
    parts = split_indices(1000, seed=3)
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(1000))
    assert all(torch.equal(one, other) for one, other in zip(parts, split_indices(1000, seed=3), strict=True))
    assert not torch.equal(parts[1], split_indices(1000, seed=4)[1])
    with pytest.raises(ValueError, match="at least 10 molecules are needed"):
        split_indices(9)
