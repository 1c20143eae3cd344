"""A batch of molecules as dense padded tensors."""

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from relational_transformer.nn.checks import check_tensor
from relational_transformer.pyg.checks import check_rows
from relational_transformer.pyg.packing import Packing

if TYPE_CHECKING:
    from torch_geometric.data import Data


class Molecules(NamedTuple):
    """M molecules of up to N atoms.

    Shapes: atoms [M, N, atom features], bonds [M, N, N, bond features] (zeros where there is no bond), positions
    [M, N, 3], node_mask [M, N], True where there is an atom.

    >>> water = Molecules(
    ...     atoms=torch.tensor([[[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]]),  # oxygen, hydrogen, hydrogen
    ...     bonds=torch.tensor([[[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]]).unsqueeze(-1),
    ...     positions=torch.tensor([[[0.0, 0.0, 0.0], [0.96, 0.0, 0.0], [-0.24, 0.93, 0.0]]]),
    ...     node_mask=torch.tensor([[True, True, True]]),
    ... )
    >>> print(water.distances()[0])
    tensor([[0.0000, 0.9600, 0.9605],
            [0.9600, 0.0000, 1.5182],
            [0.9605, 1.5182, 0.0000]])
    """

    atoms: Tensor
    bonds: Tensor
    positions: Tensor
    node_mask: Tensor

    @classmethod
    def of(cls, batch: "Data") -> "Molecules":
        """The molecules of a PyG batch with `x`, `edge_index`, `edge_attr` and `pos`, as its QM9 has them."""
        x, edge_index, edge_attr, positions = (
            getattr(batch, name, None) for name in ("x", "edge_index", "edge_attr", "pos")
        )
        if x is None or edge_index is None or edge_attr is None or positions is None:
            raise ValueError("molecules need x, edge_index, edge_attr and pos, and some of them are missing in batch")
        check_tensor("x", x, axes=2)
        packing = Packing.of(edge_index, x.shape[0], getattr(batch, "batch", None))
        check_tensor("edge_attr", edge_attr, axes=2)
        check_rows("pos", positions, x.shape[0], "atoms")
        bonds = packing.pack_edges(edge_attr, missing=edge_attr.new_zeros(edge_attr.shape[-1]))
        return cls(packing.pack_nodes(x), bonds, packing.pack_nodes(positions), packing.node_mask)

    def distances(self) -> Tensor:
        """Between all pairs of atoms, [M, N, N]; those of absent atoms mean nothing."""
        apart = self.positions.unsqueeze(-2) - self.positions.unsqueeze(-3)
        return torch.linalg.vector_norm(apart, dim=-1)

    def to(self, device: torch.device | str) -> "Molecules":
        """The same on another device."""
        return Molecules(*(tensor.to(device) for tensor in self))
