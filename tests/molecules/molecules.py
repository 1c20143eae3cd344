"""Made-up molecules, in the tensors of this package and in the two raw formats of PyG's QM9."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.datasets.qm9 import conversion

SYMBOLS = ("H", "C", "N", "O", "F")
ATOMIC_NUMBERS = torch.tensor([1, 6, 7, 8, 9])


@dataclass(frozen=True)
class Molecule:
    types: Tensor
    """Which of `SYMBOLS` each atom is, [N]."""
    positions: Tensor
    bonds: list[tuple[int, int, int]]
    """First atom, second atom, and 1, 2 or 3: single, double or triple."""
    properties: Tensor
    """[19], in the order and units of `TARGETS`."""

    def as_pyg(self, index: int) -> dict:
        """What PyG's ready-made file has of a molecule."""
        count = len(self.types)
        directed = sorted([(i, j, order) for i, j, order in self.bonds] + [(j, i, order) for i, j, order in self.bonds])
        source, target, order = torch.tensor(directed).T
        hydrogens = torch.zeros(count).index_add(0, target, (self.types[source] == 0).float())
        number = ATOMIC_NUMBERS[self.types]
        nothing = torch.zeros(count)
        others = torch.stack([number.float(), nothing, nothing, nothing, nothing, hydrogens], dim=1)
        return {
            "x": torch.cat([F.one_hot(self.types, 5).float(), others], dim=1),
            "z": number,
            "pos": self.positions,
            "edge_index": torch.stack([source, target]),
            "edge_attr": F.one_hot(order - 1, 4).float(),
            "y": self.properties.unsqueeze(0),
            "name": f"gdb_{index + 1}",
            "idx": index,
        }

    def as_sdf(self, index: int) -> str:
        """What the original file has of it: an MDL molfile, V2000."""
        lines = [
            f"gdb_{index + 1}",
            "",
            "",
            f"{len(self.types):3d}{len(self.bonds):3d}  0  0  0  0  0  0  0  0999 V2000",
        ]
        for kind, (x, y, z) in zip(self.types.tolist(), self.positions.tolist(), strict=True):
            lines.append(f"{x:10.4f}{y:10.4f}{z:10.4f} {SYMBOLS[kind]:3s} 0  0  0  0  0  0  0  0  0  0  0  0")
        lines += [f"{i + 1:3d}{j + 1:3d}{order:3d}  0  0  0  0" for i, j, order in self.bonds]
        return "\n".join([*lines, "M  END", "$$$$", ""])


def make_molecule(generator: torch.Generator) -> Molecule:
    """A chain of 2 to 4 heavy atoms with a hydrogen or two on each.

    Its properties are all the same number: one for each double bond, and the mean distance of its atoms.
    """

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    heavy = draw(2, 5)
    types, bonds = [draw(1, 5) for _ in range(heavy)], [(i, i + 1, draw(1, 3)) for i in range(heavy - 1)]
    for atom in range(heavy):
        for _ in range(draw(1, 3)):
            bonds.append((atom, len(types), 1))
            types.append(0)
    positions = (1.5 * torch.randn(len(types), 3, generator=generator)).round(decimals=4)
    doubles = sum(order == 2 for _, _, order in bonds)
    value = doubles + torch.pdist(positions).mean()
    return Molecule(torch.tensor(types), positions, bonds, value.expand(19).clone())


def make_molecules(count: int, seed: int = 0) -> list[Molecule]:
    generator = torch.Generator().manual_seed(seed)
    return [make_molecule(generator) for _ in range(count)]


def write_ready_made(folder: Path, molecules: list[Molecule]) -> None:
    """`raw/qm9_v3.pt`, which PyG reads where RDKit is not installed."""
    (folder / "raw").mkdir(parents=True)
    torch.save([molecule.as_pyg(index) for index, molecule in enumerate(molecules)], folder / "raw" / "qm9_v3.pt")


def write_original(folder: Path, molecules: list[Molecule], uncharacterised: int) -> None:
    """`gdb9.sdf`, `gdb9.sdf.csv` and `uncharacterized.txt`, which names one molecule (from 1) to be left out."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    (raw / "gdb9.sdf").write_text("".join(molecule.as_sdf(index) for index, molecule in enumerate(molecules)))
    rows = ["mol_id,A,B,C,mu,alpha,homo,lumo,gap,r2,zpve,u0,u298,h298,g298,cv,u0_atom,u298_atom,h298_atom,g298_atom"]
    for index, molecule in enumerate(molecules):
        given = molecule.properties / conversion  # hartree and kcal/mol, as they were published
        rows.append(",".join([f"gdb_{index + 1}", *(f"{value:.9g}" for value in [*given[16:], *given[:16]])]))
    (raw / "gdb9.sdf.csv").write_text("\n".join(rows) + "\n")
    heading = "\n".join(f"line {number} of a heading" for number in range(9))
    (raw / "uncharacterized.txt").write_text(f"{heading}\n{uncharacterised:6d}  C  C\n\n")
