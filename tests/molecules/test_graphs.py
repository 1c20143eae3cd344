import pytest
import torch

pytest.importorskip("torch_geometric")

from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_undirected

from relational_transformer.molecules import Molecules
from tests.molecules.made_up import Molecule, make_molecules


def as_pyg(molecule: Molecule) -> Data:
    first, second, order = torch.tensor(molecule.bonds).T
    kinds = torch.nn.functional.one_hot(order - 1, 3).float()
    edge_index, edge_attr = to_undirected(torch.stack([first, second]), kinds)
    atoms = torch.tensor([[float(element == kind) for kind in "HCNOF"] for element in molecule.elements])
    return Data(x=atoms, pos=torch.from_numpy(molecule.positions), edge_index=edge_index, edge_attr=edge_attr)


def test_a_pyg_batch_is_padded_and_keeps_every_bond():
    made = make_molecules(3)
    molecules = Molecules.of(Batch.from_data_list([as_pyg(one) for one in made]))
    assert molecules.node_mask.sum(1).tolist() == [len(one.elements) for one in made]
    for number, one in enumerate(made):
        count = len(one.elements)
        bonds = molecules.bonds[number, :count, :count]
        assert bonds.sum() == 2 * len(one.bonds)
        for i, j, order in one.bonds:
            assert bonds[i, j].tolist() == bonds[j, i].tolist() == [float(order == k) for k in (1, 2, 3)]
        positions = torch.from_numpy(one.positions)
        torch.testing.assert_close(
            molecules.distances()[number, :count, :count], torch.cdist(positions, positions), atol=1e-6, rtol=1e-6
        )


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match="molecules need x, edge_index, edge_attr and pos"):
        Molecules.of(Batch.from_data_list([Data(x=torch.randn(2, 3))]))
