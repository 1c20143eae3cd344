"""A relational transformer that reads molecules: bonds and distances are its edge vectors."""

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from relational_transformer.nn import Pretrained, RelationalTransformer
from relational_transformer.nn.initialization import reset_linear

from .distances import distance_basis
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
        if readout not in get_args(Readout):
            raise ValueError(f"readout must be one of {', '.join(get_args(Readout))}, got {readout!r}")
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
        if targets.numel() < 2:
            raise ValueError(f"the spread of targets needs two of them, got {targets.numel()}")
        self.mean.copy_(targets.mean())
        self.std.copy_(targets.std().clamp_min(1e-12))

    def forward(self, molecules: Molecules) -> Tensor:
        nearness = distance_basis(molecules.distances(), self.distance_size, self.longest_distance)
        nodes, _, _ = self.transformer(
            molecules.atoms, (molecules.bonds, nearness), node_mask=molecules.node_mask
        )  # [M, N, node_size]
        of_atoms = self.readout_out(torch.relu(self.readout_in(nodes))).squeeze(-1)  # [M, N]
        total = of_atoms.masked_fill(~molecules.node_mask, 0.0).sum(-1)
        if self.readout == "mean":
            total = total / molecules.node_mask.sum(-1).clamp_min(1)
        return self.mean + self.std * total
