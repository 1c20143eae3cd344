import numpy as np
import pytest

from relational_transformer.molecules.targets import COLUMNS, ELEMENTS, TARGETS, find_target, in_units

METHANE = [
    0.0, 13.21, -0.3877, 0.1171, 0.5048, 35.3641, 0.044749, -40.47893, -40.476062, -40.475117, -40.498597, 6.469,
    157.7118, 157.70997, 157.70699,
]  # fmt: skip
"""As the first row of QM9 has it, in the order of `COLUMNS`."""
COUNTS = np.array([[4, 1, 0, 0, 0]])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("alpha", 13.21),
        ("gap", 13_736.31),  # 0.5048 hartree
        ("homo", -10_549.86),
        ("zpve", 1_217.68),
        ("u0", -17_172.18),  # 395.999 kcal/mol, which is its atomisation energy
        ("cv", 6.469),
    ],
)
def test_methane_in_the_units_of_the_targets(name: str, value: float):
    assert in_units(name, np.array([METHANE]), COUNTS) == pytest.approx([value], abs=0.01)


def test_units_and_atoms_are_those_of_pytorch_geometric():
    geometric = pytest.importorskip("torch_geometric.datasets.qm9")
    order = ["mu", "alpha", "homo", "lumo", "gap", "r2", "zpve", "u0", "u", "h", "g", "cv"]
    for number, name in enumerate(order):
        target = find_target(name)
        unit = 1e-3 if target.unit == "meV" else 1.0
        assert target.factor * unit == pytest.approx(geometric.conversion[number].item(), rel=1e-6)
        if 7 <= number <= 10:
            theirs = geometric.atomrefs[number]
            assert target.factor * unit * np.array(target.of_atoms) == pytest.approx(theirs, rel=1e-6)


def test_every_column_is_a_target_once():
    assert len(set(COLUMNS)) == len(TARGETS) == 15
    assert ELEMENTS == ("H", "C", "N", "O", "F")
    with pytest.raises(ValueError, match="no target of QM9 is called 'mass'; there are mu, alpha"):
        find_target("mass")
