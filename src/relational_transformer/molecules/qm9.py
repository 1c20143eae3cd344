"""QM9 from the Python package qm9pack: 130,831 molecules with coordinates, bonds and fifteen properties.

Its files are CSV; they are read as text and never by the package's own code.
"""

import csv
import hashlib
import importlib.util
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

from relational_transformer.files import cache_folder, remove_abandoned, write_atomically
from relational_transformer.reading import read_bytes

from .bonds import bonds_of
from .targets import COLUMNS, ELEMENTS

FILES = ("qm9_part1.csv", "qm9_part2.csv", "qm9_part3.csv")
MOST_BYTES = 2**30
"""Of a file."""
FORM = 2
"""Of the file that is kept: arrays as numpy has them in .npz, and the SHA-256 of all that. Another one is made anew."""
CHECKSUM_BYTES = 32

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class QM9:
    """M molecules with A atoms and B bonds in all, one after the other.

    Attributes:
        index: the number of each molecule in the original data set, from 1, [M].
        num_atoms, num_bonds: [M].
        elements: of each atom the place in `ELEMENTS`, [A].
        positions: ångström, [A, 3].
        bonds: first atom, second atom (numbers within the molecule) and order, [B, 3].
        columns: the properties `COLUMNS` as the package has them, float64 [M, 15].
        sha256: of the package's files.

    >>> load_qm9().counts()[0]  # methane: four hydrogens, one carbon  # doctest: +SKIP
    array([4, 1, 0, 0, 0])
    """

    index: np.ndarray
    num_atoms: np.ndarray
    num_bonds: np.ndarray
    elements: np.ndarray
    positions: np.ndarray
    bonds: np.ndarray
    columns: np.ndarray
    sha256: str

    def __len__(self) -> int:
        return len(self.index)

    def counts(self) -> np.ndarray:
        """How many atoms of each of `ELEMENTS` the molecules have, [M, 5]."""
        owner = np.repeat(np.arange(len(self)), self.num_atoms)
        counts = np.zeros((len(self), len(ELEMENTS)), dtype=np.int64)
        np.add.at(counts, (owner, self.elements), 1)
        return counts


def find_files() -> list[Path]:
    """The package's files; ModuleNotFoundError where it is not installed. None of its code runs."""
    found = importlib.util.find_spec("qm9pack")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("QM9 needs the package qm9pack: pip install '.[molecules]' in a checkout")
    folder = Path(next(iter(found.submodule_search_locations))) / "data"
    return [folder / name for name in FILES]


def load_qm9(cache: Path | str | None = None) -> QM9:
    """All molecules, in the order of the package; read in a minute once, and from then on from the cache.

    The arrays are kept in `cache` ($RT_CACHE, or else ~/.cache/relational_transformer) under the checksum of the
    package's files.

    >>> load_qm9().num_atoms.max()  # doctest: +SKIP
    29
    """
    texts = [read_bytes(path, MOST_BYTES) for path in find_files()]
    sha = hashlib.sha256()
    for text in texts:
        sha.update(text)
    kept = cache_folder(cache) / "qm9" / f"{sha.hexdigest()[:16]}-{FORM}.npz"
    try:
        return _read(kept, sha.hexdigest())
    except FileNotFoundError:
        log.info("reading the molecules of qm9pack once; they are kept in %s", kept)
    except (ValueError, OSError) as error:
        log.warning("%s cannot be read and is made again (%s)", kept, error)
    made = parse(texts, sha.hexdigest())
    content = BytesIO()
    np.savez_compressed(content, allow_pickle=False, **{**asdict(made), "sha256": np.array(made.sha256)})
    checksum = hashlib.sha256(content.getvalue()).digest()
    kept.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(kept.parent)
    write_atomically(kept, lambda path: path.write_bytes(content.getvalue() + checksum))
    return made


def parse(texts: list[bytes], sha256: str) -> QM9:
    """The molecules in the CSV files of the package."""
    rows = list(_rows(texts))
    if not rows:
        raise ValueError("the files of qm9pack hold no molecules")
    num_atoms = np.array([len(elements) for _, elements, *_ in rows], dtype=np.int32)
    num_bonds = np.array([len(bonds) for *_, bonds, _ in rows], dtype=np.int32)
    return QM9(
        index=np.array([index for index, *_ in rows], dtype=np.int32),
        num_atoms=num_atoms,
        num_bonds=num_bonds,
        elements=np.array([ELEMENTS.index(one) for _, elements, *_ in rows for one in elements], dtype=np.int8),
        positions=np.concatenate([positions for _, _, positions, _, _ in rows], dtype=np.float32),
        bonds=np.concatenate([np.array(bonds).reshape(-1, 3) for *_, bonds, _ in rows]).astype(np.int8),
        columns=np.array([values for *_, values in rows]),
        sha256=sha256,
    )


Row = tuple[int, list[str], np.ndarray, list[tuple[int, int, int]], list[float]]
"""Number, elements, positions, bonds and properties of a molecule."""


def _rows(texts: list[bytes]) -> Iterator[Row]:
    for name, text in zip(FILES, texts, strict=True):
        for row in csv.DictReader(text.decode().splitlines()):
            try:
                yield _molecule(row)
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{name} of qm9pack: molecule {row.get('Index')} cannot be read ({error})") from None


def _molecule(row: dict[str, str]) -> Row:
    elements = row["Elements"].strip("[]").replace("'", "").split(",")
    flat = np.array(row["XYZ_Ang"].replace("[", "").replace("]", "").split(","), dtype=np.float64)
    positions = flat.reshape(len(elements), 3)
    values = [float(row[column]) for column in COLUMNS]
    if not (np.isfinite(values).all() and np.isfinite(positions).all()):
        raise ValueError("a number is not finite")
    bonds = bonds_of(row["SMILES"], elements, positions.tolist())
    return int(row["Index"]), elements, positions, bonds, values


def _read(path: Path, sha256: str) -> QM9:
    """What is kept; ValueError where it is damaged."""
    content = read_bytes(path, MOST_BYTES)
    content, checksum = content[:-CHECKSUM_BYTES], content[-CHECKSUM_BYTES:]
    if hashlib.sha256(content).digest() != checksum:
        raise ValueError("its checksum is wrong")
    with np.load(BytesIO(content), allow_pickle=False) as arrays:
        kept = {name: arrays[name] for name in QM9.__dataclass_fields__}
    if str(kept["sha256"]) != sha256:
        raise ValueError("it was made from other files")
    return QM9(**{**kept, "sha256": sha256})
