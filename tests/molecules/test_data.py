import numpy as np
import pytest
import torch

from relational_transformer.molecules import load_qm9
from relational_transformer.molecules.data import load_split, split_indices
from tests.molecules.made_up import make_molecules
from tests.molecules.small import CPU


@pytest.mark.usefixtures("small_qm9")
@pytest.mark.parametrize("num_nodes", [14, 20])  # the largest molecules have 14 atoms at most
def test_a_batch_has_the_atoms_bonds_and_distances_of_its_molecules(num_nodes: int):
    qm9, made = load_qm9(), make_molecules(60)
    index = np.array([41, 3, 17])
    split = load_split(qm9, index, torch.tensor([1.0, 2.0, 3.0]), CPU)
    molecules, targets = split.gather(torch.tensor([2, 0]), num_nodes)
    assert targets.tolist() == [3, 1]
    assert molecules.atoms.shape == (2, num_nodes, 5)
    for place, number in enumerate((17, 41)):
        one = made[qm9.index[number] - 1]
        count = len(one.elements)
        assert molecules.node_mask[place].sum() == count
        assert ["HCNOF"[kind] for kind in molecules.atoms[place, :count].argmax(-1)] == one.elements
        expected = torch.zeros(num_nodes, num_nodes, 3)
        for first, second, order in one.bonds:
            expected[first, second, order - 1] = expected[second, first, order - 1] = 1
        assert torch.equal(molecules.bonds[place], expected)
        positions = torch.from_numpy(one.positions).float()
        torch.testing.assert_close(molecules.distances()[place, :count, :count], torch.cdist(positions, positions))
        assert molecules.atoms[place, count:].abs().sum() == 0


def test_the_split_is_by_its_seed_and_no_molecule_is_in_two_parts():
    parts = split_indices(1_000, 700, 100, None, seed=3)
    assert [len(part) for part in parts] == [700, 100, 200]
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(1_000))
    same, other = split_indices(1_000, 700, 100, None, seed=3), split_indices(1_000, 700, 100, None, seed=4)
    assert all(np.array_equal(first, second) for first, second in zip(parts, same, strict=True))
    assert not np.array_equal(parts.test, other.test)


def test_the_usual_split_is_always_the_same():
    training, validation, test = split_indices(130_831, 110_000, 10_000, None, seed=0)
    assert (training[:3].tolist(), validation[0], test[-1]) == ([112795, 87958, 49076], 129469, 55451)


def test_too_few_molecules_are_refused():
    with pytest.raises(ValueError, match="there are 50 molecules, too few for training, validation and test: 40"):
        split_indices(50, 40, 10, None, seed=0)
