"""Graph regression with edge features: the energy of made-up molecules, from their bonds and distances.

The molecules have 4 to 9 atoms of four kinds, each kind with a charge and a radius. Atoms are joined to a tree by
single or double bonds. The energy of a molecule is that of springs along its bonds (stiffer where they are double) and
of charges between all pairs of atoms. The second is in the distances of atoms that no bond joins, so a model has to
read a vector on every pair. `MoleculeRegressor` does: bonds and distances are its edge vectors.

Trains for about a minute on one core and prints the share of the variance that it explains on new molecules: 97.1%
with the default settings. (Seeds 0 to 2 give 97.1% to 98.2%.)
"""

import argparse

import torch
from torch import Tensor
from torch.nn import functional as F

from relational_transformer.molecules import MoleculeRegressor, Molecules

CHARGES = torch.tensor([1.0, -1.0, 0.5, -0.5])
RADII = torch.tensor([0.4, 0.6, 0.7, 0.8])
STIFFNESS = torch.tensor([0.0, 2.0, 6.0])  # without a bond, of a single bond, of a double bond


def make_molecules(count: int, largest: int = 9) -> tuple[Molecules, Tensor]:
    """Molecules [count, largest, ...], and their energies [count]."""
    kinds = torch.randint(4, (count, largest))
    present = torch.arange(largest) < torch.randint(4, largest + 1, (count, 1))
    order = torch.zeros(count, largest, largest, dtype=torch.long)
    positions = torch.zeros(count, largest, 3)
    everyone = torch.arange(count)
    for atom in range(1, largest):  # each new atom is bound to an earlier one, somewhere around it
        parent = torch.randint(atom, (count,))
        away = F.normalize(torch.randn(count, 3), dim=-1) * (1.0 + torch.rand(count, 1))
        positions[:, atom] = positions[everyone, parent] + away
        order[everyone, atom, parent] = order[everyone, parent, atom] = torch.randint(1, 3, (count,))
    bonds = F.one_hot(order, 3)[..., 1:].float()  # no bond: zeros
    molecules = Molecules(F.one_hot(kinds, 4).float(), bonds, positions, present)

    distances = molecules.distances().clamp_min(0.5)
    rest = RADII[kinds].unsqueeze(-1) + RADII[kinds].unsqueeze(-2)
    charges = CHARGES[kinds].unsqueeze(-1) * CHARGES[kinds].unsqueeze(-2)
    energy = STIFFNESS[order] * (distances - rest).square() + charges / distances  # [count, largest, largest]
    pairs = (present.unsqueeze(-1) & present.unsqueeze(-2)).float().tril(-1)
    return molecules, (energy * pairs).sum((-1, -2))


def explained(model: MoleculeRegressor, molecules: Molecules, energy: Tensor) -> float:
    with torch.no_grad():
        error = (model(molecules) - energy).square().mean()
    return 1 - (error / energy.var()).item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=1000, help="training steps of 64 molecules")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    model = MoleculeRegressor(
        atom_size=4, bond_size=2, node_size=32, edge_size=16, num_heads=4, head_size=8, node_hidden_size=64,
        edge_hidden_sizes=(32, 32), num_layers=2, distance_size=16, longest_distance=6.0,
    )  # fmt: skip
    model.set_scale(make_molecules(1000)[1])
    test = make_molecules(500)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, end_factor=0.0, total_iters=arguments.steps)
    for step in range(1, arguments.steps + 1):
        molecules, energy = make_molecules(64)
        loss = F.smooth_l1_loss(model(molecules) / model.std, energy / model.std)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step:5d}   loss {loss.item():.4f}   explained {explained(model, *test):6.1%}", flush=True)
    print(f"explained variance on new molecules: {explained(model, *test):.1%}")


if __name__ == "__main__":
    main()
