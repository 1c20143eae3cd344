"""QM9 is read from files in the format of qm9pack, once; and the package's own are what they should be."""

import hashlib
import importlib.util
import logging
from pathlib import Path

import numpy as np
import pytest

from relational_transformer.molecules import load_qm9, qm9
from relational_transformer.molecules.targets import COLUMNS, ELEMENTS
from tests.molecules.made_up import make_molecules, write_files


def test_molecules_are_what_the_files_say(small_qm9: list[Path]):
    found, made = load_qm9(), make_molecules(60)
    order = [*range(0, 60, 3), *range(1, 60, 3), *range(2, 60, 3)]  # one file after the other
    assert found.index.tolist() == [number + 1 for number in order]
    assert found.num_atoms.tolist() == [len(made[number].elements) for number in order]
    atoms, bonds = np.cumsum(found.num_atoms), np.cumsum(found.num_bonds)
    last = made[order[-1]]
    assert [ELEMENTS[kind] for kind in found.elements[atoms[-2] :]] == last.elements
    np.testing.assert_allclose(found.positions[atoms[-2] :], last.positions, atol=1e-6)
    assert sorted(map(tuple, found.bonds[bonds[-2] :].tolist())) == sorted(last.bonds)
    assert found.columns[-1, COLUMNS.index("Dipole_debye")] == last.value
    assert found.counts()[-1].tolist() == [last.elements.count(element) for element in ELEMENTS]


def test_files_are_read_once(small_qm9: list[Path], monkeypatch: pytest.MonkeyPatch):
    first = load_qm9()
    monkeypatch.setattr(qm9, "parse", lambda *_: pytest.fail("read again"))
    again = load_qm9()
    for name in ("index", "num_atoms", "num_bonds", "elements", "positions", "bonds", "columns"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert first.sha256 == again.sha256 == hashlib.sha256(b"".join(p.read_bytes() for p in small_qm9)).hexdigest()


@pytest.mark.parametrize("damage", ["flipped", "cut", "noise", "nothing"])
def test_a_damaged_cache_is_made_again(
    small_qm9: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
):
    first = load_qm9()
    (kept,) = (tmp_path / "cache" / "qm9").iterdir()
    content = bytearray(kept.read_bytes())
    content[len(content) // 2] ^= 0xFF
    damaged = {"flipped": content, "cut": content[:100], "noise": b"PK\3\4 and more", "nothing": b""}
    kept.write_bytes(damaged[damage])
    with caplog.at_level(logging.WARNING):
        again = load_qm9()
    assert "is made again" in caplog.text
    np.testing.assert_array_equal(first.positions, again.positions)
    assert len(list((tmp_path / "cache" / "qm9").iterdir())) == 1


def test_other_files_have_another_cache(small_qm9: list[Path], tmp_path: Path):
    assert len(load_qm9()) == 60
    write_files(small_qm9[0].parent, make_molecules(30))
    assert len(load_qm9()) == 30
    assert len(list((tmp_path / "cache" / "qm9").iterdir())) == 2


def test_a_molecule_that_cannot_be_read_is_named(small_qm9: list[Path]):
    text = small_qm9[1].read_text()
    small_qm9[1].write_text(text.replace("'C'", "'S'", 1))
    with pytest.raises(ValueError, match=r"qm9_part2.csv of qm9pack: molecule \d+ cannot be read .*other elements"):
        load_qm9()
    small_qm9[1].write_text(text.replace("[[", "[[nan, 0.0, 0.0], [", 1))
    with pytest.raises(ValueError, match=r"qm9_part2.csv of qm9pack: molecule \d+ cannot be read"):
        load_qm9()


def test_the_package_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"qm9pack: pip install '\.\[molecules\]'"):
        load_qm9()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("qm9pack") is None, reason="needs the package qm9pack (104 MB)")
def test_the_package_has_all_molecules_with_bonds_that_fit_their_smiles(tmp_path: Path):
    """Every one is checked when it is read: its bonds are short, and its atoms have the hydrogens of its SMILES."""
    found = load_qm9(tmp_path)
    assert (len(found), found.num_atoms.sum(), found.num_atoms.min(), found.num_atoms.max()) == (
        130_831,
        2_359_210,
        3,
        29,
    )
    assert np.bincount(found.bonds[:, 2]).tolist() == [0, 2_265_603, 138_112, 36_645]
    assert len(set(range(1, 133_886)) - set(found.index.tolist())) == 3_054
    assert found.sha256.startswith("a1f4b399c888207c")
    digest = hashlib.sha256()
    for array in (found.index, found.elements, found.bonds, found.columns):
        digest.update(np.ascontiguousarray(array).tobytes())
    assert digest.hexdigest()[:16] == "14461ae030eb91fe"
