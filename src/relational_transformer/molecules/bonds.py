"""The bonds of a molecule with coordinates: its SMILES has those of heavy atoms, a hydrogen has the nearest."""

from collections.abc import Sequence
from math import dist

from .smiles import Skeleton, parse_smiles

LONGEST_BOND = 2.2
"""Ångström, between heavy atoms; the longest of QM9 (of a strained cage) are a little above 2."""

Position = Sequence[float]


def bonds_of(smiles: str, elements: Sequence[str], positions: Sequence[Position]) -> list[tuple[int, int, int]]:
    """Bonds (first atom, second atom, order) of atoms with these elements and positions.

    A SMILES has heavy atoms alone. They are found among the atoms by elements and by the lengths of their bonds, in the
    order of the SMILES where that fits. A hydrogen is bonded to the heavy atom that is nearest. That every heavy atom
    then has the hydrogens that the SMILES says is checked: two sources agree, or it is an error.

    >>> bonds_of("C#N", ["C", "N", "H"], [(0.0, 0.0, 0.0), (1.16, 0.0, 0.0), (-1.07, 0.0, 0.0)])
    [(0, 1, 3), (0, 2, 1)]
    """
    skeleton = parse_smiles(smiles)
    heavy = [atom for atom, element in enumerate(elements) if element != "H"]
    if sorted(skeleton.elements) != sorted(elements[atom] for atom in heavy):
        raise ValueError(f"{smiles!r} has other elements than the atoms, {''.join(elements)}")
    places = _places(skeleton, [elements[atom] for atom in heavy], [positions[atom] for atom in heavy])
    if places is None:
        raise ValueError(f"{smiles!r} does not fit the positions of its atoms: a bond would be too long")
    bonds = [(heavy[places[first]], heavy[places[second]], order) for first, second, order in skeleton.bonds]
    counts = dict.fromkeys(heavy, 0)
    for atom, element in enumerate(elements):
        if element == "H":
            nearest = min(heavy, key=lambda other: dist(positions[atom], positions[other]))
            bonds.append((nearest, atom, 1))
            counts[nearest] += 1
    if any(counts[heavy[place]] != wanted for place, wanted in zip(places, skeleton.hydrogens, strict=True)):
        raise ValueError(f"{smiles!r} does not fit the positions of its hydrogens")
    return bonds


def _places(skeleton: Skeleton, elements: Sequence[str], positions: Sequence[Position]) -> list[int] | None:
    """For each atom of the SMILES the number of a heavy atom, so that no bond is too long; None where there is none."""
    before: list[list[int]] = [[] for _ in skeleton.elements]  # neighbours that are placed earlier
    for first, second, _ in skeleton.bonds:
        before[max(first, second)].append(min(first, second))
    places: list[int] = []

    def place(atom: int) -> bool:
        if atom == len(before):
            return True
        for candidate in sorted(range(len(before)), key=lambda number: number != atom):  # its own number first
            fits = candidate not in places and elements[candidate] == skeleton.elements[atom]
            if fits and all(dist(positions[candidate], positions[places[one]]) < LONGEST_BOND for one in before[atom]):
                places.append(candidate)
                if place(atom + 1):
                    return True
                places.pop()
        return False

    return places if place(0) else None
