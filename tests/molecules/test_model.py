from pathlib import Path

import pytest
import torch

from relational_transformer.molecules import MoleculeRegressor, Molecules

SIZES = {"atom_size": 5, "bond_size": 2, "node_size": 16, "edge_size": 8, "num_heads": 2, "head_size": 8}


def make_model(**changes) -> MoleculeRegressor:
    torch.manual_seed(0)
    small = {"node_hidden_size": 16, "edge_hidden_sizes": (8, 8), "num_layers": 2, "distance_size": 8}
    return MoleculeRegressor(**{**SIZES, **small, **changes}).double()


def make_molecules(count: int = 3, num_atoms: int = 6) -> Molecules:
    torch.manual_seed(1)
    atoms = torch.randn(count, num_atoms, 5, dtype=torch.double)
    bonds = (torch.rand(count, num_atoms, num_atoms, 2) < 0.3).double()
    bonds = bonds * bonds.transpose(1, 2)
    positions = 2 * torch.randn(count, num_atoms, 3, dtype=torch.double)
    sizes = torch.tensor([num_atoms, num_atoms - 1, 2])[:count]
    return Molecules(atoms, bonds, positions, torch.arange(num_atoms) < sizes.unsqueeze(1))


@pytest.mark.parametrize("readout", ["sum", "mean"])
def test_turning_moving_and_mirroring_change_nothing(readout: str):
    model, molecules = make_model(readout=readout), make_molecules()
    rotation, _ = torch.linalg.qr(torch.randn(3, 3, dtype=torch.double))
    moved = molecules._replace(positions=-molecules.positions @ rotation + 5.0)
    torch.testing.assert_close(model(moved), model(molecules), rtol=1e-9, atol=1e-9)


def test_the_order_of_the_atoms_changes_nothing():
    model, molecules = make_model(), make_molecules()
    order = torch.randperm(6)
    shuffled = Molecules(
        molecules.atoms[:, order],
        molecules.bonds[:, order][:, :, order],
        molecules.positions[:, order],
        molecules.node_mask[:, order],
    )
    torch.testing.assert_close(model(shuffled), model(molecules), rtol=1e-9, atol=1e-9)


def test_padding_changes_nothing():
    model, molecules = make_model(readout="mean"), make_molecules()
    alone = Molecules(
        molecules.atoms[2:, :2], molecules.bonds[2:, :2, :2], molecules.positions[2:, :2], molecules.node_mask[2:, :2]
    )
    torch.testing.assert_close(model(alone), model(molecules)[2:], rtol=1e-9, atol=1e-9)


def test_whatever_absent_atoms_hold_results_and_gradients_have_the_same_bits():
    model, molecules = make_model(), make_molecules()
    absent = ~molecules.node_mask
    pairs = absent.unsqueeze(-1) | absent.unsqueeze(-2)

    def run(padding: float) -> list[torch.Tensor]:
        atoms = molecules.atoms.masked_fill(absent.unsqueeze(-1), padding)
        bonds = molecules.bonds.masked_fill(pairs.unsqueeze(-1), padding)
        positions = molecules.positions.masked_fill(absent.unsqueeze(-1), padding).requires_grad_()
        energies = model(Molecules(atoms, bonds, positions, molecules.node_mask))
        return [
            energies,
            *torch.autograd.grad(energies.square().sum(), [positions, *model.parameters()], materialize_grads=True),
        ]

    expected = run(0.0)
    assert all(tensor.isfinite().all() for tensor in expected)
    for padding in (1e200, -torch.inf, torch.nan):
        for ours, theirs in zip(run(padding), expected, strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("readout", ["sum", "mean"])
def test_masks_and_bonds_of_all_molecules_may_be_given_once(readout: str):
    model, molecules = make_model(readout=readout), make_molecules()
    node_mask, bonds = torch.ones(3, 6, dtype=torch.bool), molecules.bonds[:1]
    expected = model(molecules._replace(node_mask=node_mask, bonds=bonds.expand(3, -1, -1, -1)))
    ours = model(molecules._replace(node_mask=torch.ones(1, 1, dtype=torch.bool), bonds=bonds))
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9)


def test_a_distance_and_a_bond_are_both_seen():
    model, molecules = make_model(), make_molecules()
    apart = molecules.positions.clone()
    apart[:, 0] += 0.5
    broken = molecules.bonds.clone()
    broken[0, 0, 1] = broken[0, 1, 0] = 1 - broken[0, 0, 1]
    assert ((model(molecules._replace(positions=apart)) - model(molecules)).abs() > 1e-4).all()
    change = (model(molecules._replace(bonds=broken)) - model(molecules)).abs()
    assert change[0] > 1e-4
    assert (change[1:] == 0).all()


def test_gradients_are_finite_where_atoms_are_in_the_same_place():
    """The distance of an atom to itself is zero, where a norm has no slope."""
    model, molecules = make_model(), make_molecules()
    positions = molecules.positions.clone().requires_grad_()
    model(molecules._replace(positions=positions)).sum().backward()
    assert positions.grad is not None
    assert positions.grad.isfinite().all()


def test_scale_is_part_of_what_is_saved(tmp_path: Path):
    pytest.importorskip("safetensors")
    model, molecules = make_model(), make_molecules()
    model.set_scale(torch.tensor([10.0, 14.0]))
    model.save_pretrained(tmp_path)
    again = MoleculeRegressor.from_pretrained(tmp_path)
    assert again.mean == 12
    assert torch.equal(again(molecules), model(molecules))


def test_an_unknown_readout_is_refused():
    with pytest.raises(ValueError, match="readout must be one of sum, mean, got 'max'"):
        make_model(readout="max")


def test_one_target_has_no_spread():
    with pytest.raises(ValueError, match="the spread of targets needs two of them, got 1"):
        make_model().set_scale(torch.tensor([10.0]))
