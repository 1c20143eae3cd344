import pytest

from relational_transformer.molecules.bonds import bonds_of
from tests.molecules.made_up import make_molecules


def as_set(bonds: list[tuple[int, int, int]]) -> set[tuple[int, int, int]]:
    return {(min(i, j), max(i, j), order) for i, j, order in bonds}


def test_bonds_of_made_up_molecules_are_those_they_were_made_with():
    for molecule in make_molecules(50):
        found = bonds_of(molecule.smiles, molecule.elements, molecule.positions.tolist())
        assert as_set(found) == as_set(molecule.bonds)


def test_atoms_in_another_order_than_the_smiles_are_found_by_their_distances():
    """Diacetylene, as number 23 of QM9 lists it: both triple bonds first, then the hydrogens."""
    along = [0.0, 1.2, 3.8, 2.6, -1.1, 4.9]  # C C C C H H: the third carbon is the last of the chain
    bonds = bonds_of("C#CC#C", list("CCCCHH"), [(x, 0.0, 0.0) for x in along])
    assert as_set(bonds) == {(0, 1, 3), (1, 3, 1), (2, 3, 3), (0, 4, 1), (2, 5, 1)}


def test_heavy_atoms_may_stand_between_hydrogens():
    places = [(0.0, 0.0, 0.0), (-1.0, 0.0, 0.0), (1.2, 0.0, 0.0), (-0.5, 0.9, 0.0)]
    assert as_set(bonds_of("C=O", list("CHOH"), places)) == {(0, 2, 2), (0, 1, 1), (0, 3, 1)}


def test_two_sources_that_disagree_are_an_error():
    places = [(0.0, 0.0, 0.0), (1.4, 0.0, 0.0), (-0.9, 0.0, 0.0), (2.3, 0.0, 0.0), (0.0, 0.9, 0.0)]
    with pytest.raises(ValueError, match=r"'NO' does not fit the positions of its hydrogens"):
        bonds_of("NO", list("NOHHH"), [*places[:4], (1.4, 0.9, 0.0)])
    with pytest.raises(ValueError, match="a bond would be too long"):
        bonds_of("NO", list("NOHHH"), [places[0], (3.0, 0.0, 0.0), *places[2:]])
    with pytest.raises(ValueError, match="has other elements"):
        bonds_of("CO", list("NOHHH"), places)
