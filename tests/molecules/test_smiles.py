import pytest

from relational_transformer.molecules.smiles import parse_smiles


@pytest.mark.parametrize(
    ("text", "hydrogens"),
    [
        ("C", [4]),
        ("C#N", [1, 0]),
        ("CC(C)=O", [3, 0, 3, 0]),
        ("O=N(=O)C1=CC=CN1", [0, 0, 0, 0, 1, 1, 1, 1]),  # a nitrogen with five bonds
        ("[NH3+]CC([O-])=O", [3, 2, 0, 0, 0]),
        ("[CH-]1[NH+]CC1", [1, 1, 2, 2]),
    ],
)
def test_hydrogens_are_those_in_brackets_or_what_the_valence_leaves(text: str, hydrogens: list[int]):
    assert parse_smiles(text).hydrogens == hydrogens


def test_rings_and_branches_are_bonds():
    skeleton = parse_smiles("C1N2C3C4C5OC13C2C45")
    assert skeleton.elements == list("CNCCCOCCC")
    assert {(first, second) for first, second, _ in skeleton.bonds} == {
        (0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (0, 6), (2, 6), (6, 7), (1, 7), (7, 8), (3, 8), (4, 8)
    }  # fmt: skip
    assert parse_smiles("C=1CC1").bonds == [(0, 1, 1), (1, 2, 1), (0, 2, 2)]


def test_bonds_and_hydrogens_are_those_of_rdkit():
    chemistry = pytest.importorskip("rdkit.Chem")
    for text in ("OC1CC1=O", "N#CC12CC(C1)C2", "[NH3+]CC([O-])=O", "CC#CC1=NN=C(F)O1", "C1C2C3C4=CCC13C24"):
        molecule = chemistry.MolFromSmiles(text)
        chemistry.Kekulize(molecule, clearAromaticFlags=True)
        skeleton = parse_smiles(text)
        assert skeleton.hydrogens == [atom.GetTotalNumHs() for atom in molecule.GetAtoms()]
        theirs = {
            (*sorted((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())), int(bond.GetBondTypeAsDouble()))
            for bond in molecule.GetBonds()
        }
        assert {(min(i, j), max(i, j), order) for i, j, order in skeleton.bonds} == theirs


@pytest.mark.parametrize("text", ["c1ccccc1", "C1CC", "C(C", "C)C", "1CC1", "C[C@H](N)O", "Cl"])
def test_what_is_not_of_qm9_is_refused(text: str):
    with pytest.raises(ValueError, match="is no SMILES of QM9"):
        parse_smiles(text)
