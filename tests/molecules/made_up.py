"""Made-up molecules, in files of the format of qm9pack and in PyG's."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from relational_transformer.molecules import qm9
from relational_transformer.molecules.targets import ELEMENTS, TARGETS

VALENCES = {"C": 4, "N": 3, "O": 2, "F": 1}


@dataclass(frozen=True)
class Molecule:
    """A chain of heavy atoms, each with the hydrogens that it needs."""

    smiles: str
    elements: list[str]
    positions: np.ndarray
    bonds: list[tuple[int, int, int]]

    @property
    def value(self) -> float:
        """One for every double bond, and the mean distance of its atoms: edges alone know it."""
        apart = np.linalg.norm(self.positions[:, None] - self.positions, axis=-1)
        return sum(order == 2 for *_, order in self.bonds) + apart[np.triu_indices(len(apart), 1)].mean()

    def row(self, index: int) -> dict[str, str]:
        """What a file of the package says of it. Every target is its value, in the unit of the target."""
        counts = np.array([self.elements.count(element) for element in ELEMENTS])
        columns = {
            target.column: repr(float(self.value / target.factor + counts @ np.array(target.of_atoms)))
            for target in TARGETS.values()
        }
        return {
            "XYZ_file": f"dsgdb9nsd_{index:06}.xyz",
            "Index": str(index),
            "SMILES": self.smiles,
            "Elements": "[" + ",".join(f"'{element}'" for element in self.elements) + "]",
            "XYZ_Ang": json.dumps(self.positions.tolist()),
            **columns,
        }


def make_molecule(random: np.random.Generator) -> Molecule:
    """Two to four heavy atoms, 1.3 Å apart along a bent line, with hydrogens 0.6 Å around them."""
    length = int(random.integers(2, 5))
    orders = random.integers(1, 3, size=length - 1).tolist()
    taken = np.convolve(orders, [1, 1])
    heavy = [str(random.choice([kind for kind in "CNOF" if VALENCES[kind] >= orders_of])) for orders_of in taken]
    steps = np.stack([np.full(length, 1.2), *(0.5 * random.standard_normal((2, length)).clip(-1, 1))], axis=1)
    places = steps.cumsum(0)
    smiles = heavy[0] + "".join("=" * (order == 2) + kind for order, kind in zip(orders, heavy[1:], strict=True))
    elements, positions = list(heavy), list(places)
    bonds = [(atom, atom + 1, order) for atom, order in enumerate(orders)]
    for atom, kind in enumerate(heavy):
        for _ in range(VALENCES[kind] - taken[atom]):
            away = random.standard_normal(3)
            bonds.append((atom, len(elements), 1))
            elements.append("H")
            positions.append(places[atom] + 0.55 * away / np.linalg.norm(away))
    return Molecule(smiles, elements, np.array(positions).round(6), bonds)


def make_molecules(count: int, seed: int = 0) -> list[Molecule]:
    random = np.random.default_rng(seed)
    return [make_molecule(random) for _ in range(count)]


def write_files(folder: Path, molecules: list[Molecule]) -> list[Path]:
    """Three files, as the package has them."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in qm9.FILES]
    rows = [molecule.row(index) for index, molecule in enumerate(molecules, start=1)]
    for number, path in enumerate(paths):
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), quoting=csv.QUOTE_MINIMAL)
            writer.writeheader()
            writer.writerows(rows[number::3])
    return paths
