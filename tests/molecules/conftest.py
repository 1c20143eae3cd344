"""QM9 of a few made-up molecules in place of the package's."""

from pathlib import Path

import pytest

from relational_transformer.files import CACHE_VARIABLE
from relational_transformer.molecules import qm9
from tests.molecules.made_up import make_molecules, write_files


@pytest.fixture
def small_qm9(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files of sixty molecules, which are what is installed, and an empty cache."""
    paths = write_files(tmp_path / "qm9pack", make_molecules(60))
    monkeypatch.setattr(qm9, "find_files", lambda: paths)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return paths
