"""The fifteen properties of QM9, in the units in which their errors are reported."""

from typing import NamedTuple

import numpy as np

from relational_transformer.nn.checks import shown

MEV_PER_HARTREE = 27_211.386245988
"""CODATA 2018."""
ELEMENTS = ("H", "C", "N", "O", "F")


class Target(NamedTuple):
    """A property: its column in qm9pack, its unit, so many of which are one there, whether it grows with the molecule,
    and what atoms of each of `ELEMENTS` have of it on their own, in the column's unit.

    >>> find_target("gap").unit
    'meV'
    """

    column: str
    unit: str
    meaning: str
    factor: float = 1.0
    extensive: bool = False
    decimals: int = 1
    of_atoms: tuple[float, ...] = (0.0,) * len(ELEMENTS)


def _energy(column: str, meaning: str, *of_atoms: float) -> Target:
    return Target(column, "meV", meaning, MEV_PER_HARTREE, True, 1, of_atoms)


TARGETS: dict[str, Target] = {
    "mu": Target("Dipole_debye", "D", "dipole moment", decimals=4),
    "alpha": Target("Polarizability_bohr3", "a0^3", "isotropic polarisability", extensive=True, decimals=4),
    "homo": Target("HOMO_au", "meV", "energy of the highest occupied orbital", MEV_PER_HARTREE),
    "lumo": Target("LUMO_au", "meV", "energy of the lowest unoccupied orbital", MEV_PER_HARTREE),
    "gap": Target("HOMO_LUMO_gap_au", "meV", "gap between the two", MEV_PER_HARTREE),
    "r2": Target("R2_bohr2", "a0^2", "electronic spatial extent", extensive=True, decimals=3),
    "zpve": Target("ZPVE_au", "meV", "zero point vibrational energy", MEV_PER_HARTREE, True, 2),
    "u0": _energy(
        "InternalEnergy_0K_au", "atomisation energy at 0 K",
        -0.500273, -37.846772, -54.583861, -75.064579, -99.718730,
    ),
    "u": _energy(
        "InternalEnergy_298K_au", "atomisation energy at 298.15 K",
        -0.498857, -37.845355, -54.582445, -75.063163, -99.717314,
    ),
    "h": _energy(
        "Enthalphy_298K_au", "atomisation enthalpy at 298.15 K",
        -0.497912, -37.844411, -54.581501, -75.062219, -99.716370,
    ),
    "g": _energy(
        "GibbsFreeEnergy_298K_au", "atomisation free energy at 298.15 K",
        -0.510927, -37.861317, -54.598897, -75.079532, -99.733544,
    ),
    "cv": Target("Heatcapacity_Cv_cal_mol_K", "cal/(mol K)", "heat capacity at 298.15 K", extensive=True, decimals=4),
    "a": Target("RotA_GHz", "GHz", "first rotational constant", decimals=4),
    "b": Target("RotB_GHz", "GHz", "second rotational constant", decimals=4),
    "c": Target("RotC_GHz", "GHz", "third rotational constant", decimals=4),
}  # fmt: skip
"""By name. The energies of atoms are those that were published with QM9 (Ramakrishnan et al., 2014), at the same level
of theory; PyTorch Geometric's `u0_atom` ... `g_atom` are the same properties in eV."""

COLUMNS = tuple(target.column for target in TARGETS.values())


def find_target(name: str) -> Target:
    """The target of this name.

    >>> find_target("u0").unit, find_target("u0").extensive
    ('meV', True)
    """
    if not isinstance(name, str) or name not in TARGETS:
        raise ValueError(f"no target of QM9 is called {shown(name)}; there are {', '.join(TARGETS)}")
    return TARGETS[name]


def in_units(name: str, columns: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """A property of molecules [M] in its unit, float64, without what their atoms have on their own.

    Args:
        columns: the molecules' properties as qm9pack has them, [M, 15], in the order of `COLUMNS`.
        counts: how many atoms of each of `ELEMENTS` they have, [M, 5].
    """
    target = find_target(name)
    values = columns[:, COLUMNS.index(target.column)] - counts @ np.array(target.of_atoms)
    return values * target.factor
