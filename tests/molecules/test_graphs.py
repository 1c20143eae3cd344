import pytest
import torch

pytest.importorskip("torch_geometric")

from torch_geometric.data import Batch, Data

from relational_transformer.molecules import Molecules


def test_a_pyg_batch_is_padded_and_keeps_every_bond():
    made = make_molecules(3)
    molecules = Molecules.of(Batch.from_data_list([Data(**one.as_pyg(index)) for index, one in enumerate(made)]))
    assert molecules.node_mask.sum(1).tolist() == [len(one.types) for one in made]
    for number, one in enumerate(made):
        count = len(one.types)
        bonds = molecules.bonds[number, :count, :count]
        assert bonds.sum() == 2 * len(one.bonds)
        for i, j, order in one.bonds:
            assert bonds[i, j].tolist() == bonds[j, i].tolist() == [float(order == k) for k in (1, 2, 3, 4)]
        torch.testing.assert_close(
            molecules.distances()[number, :count, :count], torch.cdist(one.positions, one.positions)
        )


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match="molecules need x, edge_index, edge_attr and pos"):
        Molecules.of(Batch.from_data_list([Data(x=torch.randn(2, 3))]))
