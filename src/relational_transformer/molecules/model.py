"""A relational transformer that reads molecules: bonds and distances are its edge vectors."""

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relational_transformer.nn import Pretrained, RelationalTransformerLayer
from relational_transformer.nn.checks import (
    MOST_LAYERS,
    check_batches,
    check_choice,
    check_mask,
    check_size,
    check_tensor,
    check_vectors,
    check_weights,
    shown,
)
from relational_transformer.nn.concat_linear import concatenated
from relational_transformer.nn.initialization import reset_linear
from relational_transformer.nn.padding import present_edges, present_nodes
from relational_transformer.regression.model import LayeredModel, RelationalStep, State, precise_linear

from .distances import check_basis, distance_basis
from .graphs import Molecules
from .scale import Scale

Readout = Literal["sum", "mean"]
FIRST_OUTPUT = 0.01
"""By which the last weights are made smaller, so that a model begins near what its scale says by itself; the numbers of
twenty atoms add up to many times the spread of a target otherwise."""


class MoleculeInput(nn.Module):
    r"""A Linear of the atoms, and for every pair of them one of $[\text{bond}_{ij}, b(d_{ij})]$, which is computed in
    float32 at least."""

    def __init__(
        self, *, atom_size: int, bond_size: int, node_size: int, edge_size: int, distance_size: int,
        longest_distance: float,
    ) -> None:  # fmt: skip
        super().__init__()
        self.distance_size, self.longest_distance = distance_size, longest_distance
        self.node_input = nn.Linear(atom_size, node_size)
        self.edge_input = nn.Linear(bond_size + distance_size, edge_size)
        reset_linear(self.node_input)
        reset_linear(self.edge_input)

    def forward(self, molecules: Molecules) -> State:
        dtype = self.node_input.weight.dtype
        nearness = distance_basis(molecules.distances(), self.distance_size, self.longest_distance)
        pairs = concatenated((molecules.bonds.to(nearness.dtype), nearness))
        return self.node_input(molecules.atoms.to(dtype)), precise_linear(self.edge_input, pairs).to(dtype)


class MoleculeOutput(nn.Module):
    """A number for each atom, added up or averaged, in float32 at least."""

    def __init__(self, node_size: int, readout: Readout) -> None:
        super().__init__()
        self.readout: Readout = readout
        self.hidden = nn.Linear(node_size, node_size)
        self.output = nn.Linear(node_size, 1)
        reset_linear(self.hidden)
        reset_linear(self.output)
        with torch.no_grad():
            self.output.weight.mul_(FIRST_OUTPUT)

    def forward(self, molecules: Molecules, state: State) -> Tensor:
        of_atoms = precise_linear(self.output, F.relu(precise_linear(self.hidden, state[0]))).squeeze(-1)  # [..., N]
        total = of_atoms.masked_fill(~molecules.node_mask, 0.0).sum(-1)
        if self.readout == "sum":
            return total
        return total / molecules.node_mask.sum(-1).clamp_min(1)


class MoleculeRegressor(Pretrained):
    r"""One number for each molecule, from its atoms and from an edge vector for **every** pair of them.

    $$e_{ij} = W\,[\text{bond}_{ij},\ b(d_{ij})] \qquad
    \hat y = \text{mean} + \sum_i \text{per\_atom} \cdot n_i^{(0)} + \text{std} \sum_i \text{MLP}(n_i^{(L)})$$

    where $b$ is `distance_basis`, $n^{(0)}$ the atoms' features and $n^{(L)}$ the atoms after L relational transformer
    layers. Positions are read as
    distances alone, so the prediction does not change when a molecule is turned, moved or mirrored, nor when its atoms
    are listed in another order.

    Args:
        atom_size: features of an atom; in QM9 5, one for each element.
        bond_size: features of a bond; in QM9 3: single, double, triple.
        distance_size: centres of the distance basis.
        longest_distance: the last centre, in the unit of the positions.
        readout: the atoms' numbers are added up (``sum``, for what grows with the molecule), or averaged (``mean``).

    The other arguments are those of `RelationalTransformer`. Targets are learnt in units of their spread: `set_scale`
    takes `mean`, `per_atom` and `std` from the training targets. `network` is all but this scale.

    Shapes: `Molecules` of M -> [M].

    >>> model = MoleculeRegressor(atom_size=5, bond_size=1, node_size=16, edge_size=8, num_heads=2, head_size=8)
    >>> molecules = Molecules(
    ...     torch.randn(2, 4, 5), torch.zeros(2, 4, 4, 1), torch.randn(2, 4, 3), torch.ones(2, 4, dtype=torch.bool)
    ... )
    >>> model(molecules).shape
    torch.Size([2])
    """

    mean: Tensor
    per_atom: Tensor
    std: Tensor

    def __init__(
        self,
        *,
        atom_size: int = 5,
        bond_size: int = 3,
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
        check_size(atom_size=atom_size, bond_size=bond_size, node_size=node_size, edge_size=edge_size)
        check_size(MOST_LAYERS, num_layers=num_layers)
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
        layers: list[nn.Module] = [
            RelationalStep(
                RelationalTransformerLayer(
                    node_size=node_size,
                    edge_size=edge_size,
                    num_heads=num_heads,
                    head_size=head_size,
                    node_hidden_size=node_hidden_size,
                    edge_hidden_sizes=edge_hidden_sizes,
                    dropout=dropout,
                )
            )
            for _ in range(num_layers)
        ]
        first = MoleculeInput(
            atom_size=atom_size,
            bond_size=bond_size,
            node_size=node_size,
            edge_size=edge_size,
            distance_size=distance_size,
            longest_distance=longest_distance,
        )
        self.network = LayeredModel(first, layers, MoleculeOutput(node_size, readout))
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("per_atom", torch.zeros(atom_size))
        self.register_buffer("std", torch.ones(()))

    def set_scale(self, targets: Tensor, counts: Tensor | None = None) -> None:
        """Take mean and spread from the training targets [M], two of them at least; given the molecules' `counts` of
        atoms of every kind [M, atom_size], as a linear function of these (see `Scale`)."""
        check_tensor("targets", targets)
        if targets.is_meta and not self.mean.is_meta:
            raise ValueError("targets must hold numbers, got a tensor on the meta device")
        if targets.numel() < 2:
            raise ValueError(f"the spread of targets needs two of them, got {targets.numel()}")
        if counts is None:
            nothing = targets.new_zeros(targets.numel(), self.atom_size)
            self.use_scale(Scale.of(targets.flatten(), nothing, extensive=False))
        else:
            check_tensor("counts", counts, axes=2)
            if counts.shape != (targets.numel(), self.atom_size):
                raise ValueError(
                    f"counts must be of {targets.numel()} molecules and {self.atom_size} kinds of atoms, "
                    f"got shape {list(counts.shape)}"
                )
            self.use_scale(Scale.of(targets.flatten(), counts, extensive=True))

    def use_scale(self, scale: Scale) -> None:
        """Take a scale that was found before."""
        for name, value in scale._asdict().items():
            getattr(self, name).copy_(value)

    def forward(self, molecules: Molecules) -> Tensor:
        """One number for each molecule; whatever absent atoms hold reaches none, and no gradient."""
        self._check(molecules)
        atoms, bonds, positions, node_mask = molecules
        node_mask = node_mask.expand(*node_mask.shape[:-1], atoms.shape[-2])  # atoms are counted by it
        present = Molecules(
            # Distances to where an absent atom is not may be NaN, and their gradient as well.
            present_nodes(atoms, node_mask),
            present_edges(bonds, node_mask),
            present_nodes(positions, node_mask),
            node_mask,
        )
        guess = self.mean + present.atoms.sum(-2) @ self.per_atom
        return guess + self.std * self.network(present)

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
        first = self.network.first
        assert isinstance(first, MoleculeInput)
        check_weights(first.node_input, atoms=atoms, bonds=bonds, positions=positions)
        if node_mask is None:
            raise ValueError("node_mask must be given, got None")
        check_mask("node_mask", node_mask, (num_atoms,), atoms)
        check_batches(atoms=(atoms, 2), bonds=(bonds, 3), positions=(positions, 2), node_mask=(node_mask, 1))
