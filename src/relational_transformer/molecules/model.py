"""A relational transformer that reads molecules: bonds and distances are its edge vectors."""

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from relational_transformer.nn import Pretrained, RelationalTransformer
from relational_transformer.nn.checks import (
    check_batches,
    check_choice,
    check_mask,
    check_size,
    check_tensor,
    check_vectors,
    check_weights,
    shown,
)
from relational_transformer.nn.initialization import reset_linear
from relational_transformer.nn.padding import present_nodes

from .distances import check_basis, distance_basis
from .graphs import Molecules

Readout = Literal["sum", "mean"]


class MoleculeRegressor(Pretrained):
    r"""One number for each molecule, from its atoms and from an edge vector for **every** pair of them.

    $$e_{ij} = W\,[\text{bond}_{ij},\ b(d_{ij})] \qquad
    \hat y = \text{mean} + \text{std} \sum_i \text{MLP}(n_i^{(L)})$$

    where $b$ is `distance_basis` and $n^{(L)}$ the atoms after L relational transformer layers. Positions are read as
    distances alone, so the prediction does not change when a molecule is turned, moved or mirrored, nor when its atoms
    are listed in another order.

    Args:
        atom_size: features of an atom; 11 in PyG's QM9.
        bond_size: features of a bond; 4 in PyG's QM9.
        distance_size: centres of the distance basis.
        longest_distance: the last centre, in the unit of the positions.
        readout: the atoms' numbers are added up (``sum``, for what grows with the molecule), or averaged (``mean``).

    The other arguments are those of `RelationalTransformer`. Targets are learnt in units of their spread: `set_scale`
    takes `mean` and `std` from the training targets.

    Shapes: `Molecules` of M -> [M].

    >>> model = MoleculeRegressor(atom_size=5, bond_size=1, node_size=16, edge_size=8, num_heads=2, head_size=8)
    >>> molecules = Molecules(
    ...     torch.randn(2, 4, 5), torch.zeros(2, 4, 4, 1), torch.randn(2, 4, 3), torch.ones(2, 4, dtype=torch.bool)
    ... )
    >>> model(molecules).shape
    torch.Size([2])
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        *,
        atom_size: int = 11,
        bond_size: int = 4,
        node_size: int = 128,
        edge_size: int = 64,
        num_heads: int = 8,
        head_size: int = 16,
        node_hidden_size: int = 256,
        edge_hidden_sizes: tuple[int, int] = (64, 64),
        num_layers: int = 6,
        dropout: float = 0.0,
        distance_size: int = 32,
        longest_distance: float = 10.0,
        readout: Readout = "sum",
    ) -> None:
        super().__init__()
        check_size(atom_size=atom_size, bond_size=bond_size)
        check_basis(distance_size, longest_distance, names=("distance_size", "longest_distance"))
        check_choice("readout", readout, get_args(Readout))
        self.atom_size = atom_size
        self.bond_size = bond_size
        self.node_size = node_size
        self.edge_size = edge_size
        self.num_heads = num_heads
        self.head_size = head_size
        self.node_hidden_size = node_hidden_size
        self.edge_hidden_sizes = edge_hidden_sizes
        self.num_layers = num_layers
        self.dropout = dropout
        self.distance_size = distance_size
        self.longest_distance = longest_distance
        self.readout: Readout = readout
        self.transformer = RelationalTransformer(
            atom_size,
            bond_size + distance_size,
            node_size=node_size,
            edge_size=edge_size,
            num_heads=num_heads,
            head_size=head_size,
            node_hidden_size=node_hidden_size,
            edge_hidden_sizes=edge_hidden_sizes,
            num_layers=num_layers,
            dropout=dropout,
        )
        self.readout_in = nn.Linear(node_size, node_size)
        self.readout_out = nn.Linear(node_size, 1)
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("std", torch.ones(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.transformer.reset_parameters()
        reset_linear(self.readout_in)
        reset_linear(self.readout_out)

    def set_scale(self, targets: Tensor) -> None:
        """Take mean and spread from the training targets [M], two of them at least."""
        check_tensor("targets", targets)
        if targets.is_meta and not self.mean.is_meta:
            raise ValueError("targets must hold numbers, got a tensor on the meta device")
        if targets.numel() < 2:
            raise ValueError(f"the spread of targets needs two of them, got {targets.numel()}")
        self.mean.copy_(targets.mean())
        self.std.copy_(targets.std().clamp_min(1e-12))

    def forward(self, molecules: Molecules) -> Tensor:
        """One number for each molecule; whatever absent atoms hold reaches none, and no gradient."""
        self._check(molecules)
        # Distances to where an absent atom is not may be NaN, and their gradient as well.
        molecules = molecules._replace(positions=present_nodes(molecules.positions, molecules.node_mask))
        nearness = distance_basis(molecules.distances(), self.distance_size, self.longest_distance)
        nodes, _, _ = self.transformer(
            molecules.atoms, (molecules.bonds, nearness), node_mask=molecules.node_mask
        )  # [M, N, node_size]
        of_atoms = self.readout_out(torch.relu(self.readout_in(nodes))).squeeze(-1)  # [M, N]
        total = of_atoms.masked_fill(~molecules.node_mask, 0.0).sum(-1)
        if self.readout == "mean":
            total = total / molecules.node_mask.sum(-1).clamp_min(1)
        return self.mean + self.std * total

    def _check(self, molecules: Molecules) -> None:
        if not isinstance(molecules, Molecules):
            raise ValueError(f"molecules must be Molecules, got {shown(molecules)}")
        atoms, bonds, positions, node_mask = molecules
        check_vectors("atoms", atoms, self.atom_size, axes=2)
        check_vectors("bonds", bonds, self.bond_size, axes=3)
        check_vectors("positions", positions, 3, axes=2)
        num_atoms = atoms.shape[-2]
        for name, tensor, axes in (("bonds", bonds, 2), ("positions", positions, 1)):
            if any(length != num_atoms for length in tensor.shape[-1 - axes : -1]):
                raise ValueError(f"{name} must be of the {num_atoms} atoms, got shape {list(tensor.shape)}")
        check_weights(self.readout_in, atoms=atoms, bonds=bonds, positions=positions)
        if node_mask is None:
            raise ValueError("node_mask must be given, got None")
        check_mask("node_mask", node_mask, (num_atoms,), atoms)
        check_batches(atoms=(atoms, 2), bonds=(bonds, 3), positions=(positions, 2), node_mask=(node_mask, 1))
