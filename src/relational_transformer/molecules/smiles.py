"""SMILES of QM9's small molecules: which heavy atoms are bonded, and how many hydrogens each of them has."""

import re
from typing import NamedTuple

VALENCES = {"C": 4, "N": 3, "O": 2, "F": 1}

TOKEN = re.compile(
    r"\[(?P<element>[CNOF])(?P<hydrogens>H\d?)?[+-]?\]|(?P<plain>[CNOF])|(?P<order>[=#])|(?P<branch>[()])|(?P<ring>\d)"
)
ORDERS = {"=": 2, "#": 3}


class Skeleton(NamedTuple):
    """Heavy atoms in the order of a SMILES.

    Attributes:
        elements: C, N, O or F.
        bonds: first atom, second atom, and 1, 2 or 3: single, double or triple.
        hydrogens: that each atom has.
    """

    elements: list[str]
    bonds: list[tuple[int, int, int]]
    hydrogens: list[int]


def parse_smiles(text: str) -> Skeleton:
    """The atoms and bonds of a SMILES without aromatic symbols, isotopes or stereochemistry, as QM9 has them.

    An atom without brackets has the hydrogens that its valence leaves; the nitrogen of a nitro group, written with five
    bonds, has none.

    >>> parse_smiles("OC1CC1=O")
    Skeleton(elements=['O', 'C', 'C', 'C', 'O'], bonds=[(0, 1, 1), (1, 2, 1), (2, 3, 1), (1, 3, 1), (3, 4, 2)], \
hydrogens=[1, 1, 2, 0, 0])
    """
    elements: list[str] = []
    bonds: list[tuple[int, int, int]] = []
    given: dict[int, int] = {}  # hydrogens of atoms in brackets
    branches: list[int] = []
    rings: dict[str, tuple[int, int]] = {}
    order, position = 1, 0
    last: int | None = None
    try:
        while position < len(text):
            token = TOKEN.match(text, position)
            if token is None:
                raise ValueError(f"{text[position]!r} is not known")
            position = token.end()
            if element := token["element"] or token["plain"]:
                atom = len(elements)
                elements.append(element)
                if token["element"]:
                    given[atom] = int(token["hydrogens"][1:] or 1) if token["hydrogens"] else 0
                if last is not None:
                    bonds.append((last, atom, order))
                last, order = atom, 1
            elif token["order"]:
                order = ORDERS[token["order"]]
            elif last is None:
                raise ValueError("it does not begin with an atom")
            elif token["branch"] == "(":
                branches.append(last)
            elif token["branch"] == ")":
                last = branches.pop()
            elif token["ring"] in rings:
                other, begun = rings.pop(token["ring"])
                bonds.append((other, last, max(order, begun)))
                order = 1
            else:
                rings[token["ring"]] = (last, order)
                order = 1
        if rings or branches:
            raise ValueError("a ring or a branch is not closed")
    except (ValueError, IndexError) as error:
        raise ValueError(f"{text[:80]!r} is no SMILES of QM9 ({error})") from None
    taken = [0] * len(elements)
    for first, second, order in bonds:
        taken[first] += order
        taken[second] += order
    left = [max(0, VALENCES[element] - orders) for element, orders in zip(elements, taken, strict=True)]
    return Skeleton(elements, bonds, [given.get(atom, count) for atom, count in enumerate(left)])
