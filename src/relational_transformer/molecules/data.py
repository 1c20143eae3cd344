"""Molecules of QM9 on the device, and batches of them as the model reads them; which are for what."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from .graphs import Molecules
from .qm9 import QM9
from .targets import ELEMENTS

BOND_ORDERS = 3


class Indices(NamedTuple):
    """Which molecules are for training, validation and test."""

    training: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def split_indices(count: int, training: int, validation: int, test: int | None, seed: int) -> Indices:
    """So many molecules for each, drawn by `seed`; None: all that are left are for the test.

    >>> [len(part) for part in split_indices(130_831, 110_000, 10_000, None, seed=0)]
    [110000, 10000, 10831]
    """
    left = count - training - validation
    if left < (test or 1):
        wanted = f"{training:,} + {validation:,} + {test or 1:,}"
        raise ValueError(f"there are {count:,} molecules, too few for training, validation and test: {wanted}")
    order = np.random.Generator(np.random.Philox(key=seed)).permutation(count)
    last = training + validation + (left if test is None else test)
    return Indices(order[:training], order[training : training + validation], order[training + validation : last])


@dataclass(frozen=True)
class MoleculeSplit:
    """The molecules of a split, padded to the largest, W atoms.

    Attributes:
        elements: of each atom the place in `ELEMENTS`, [M, W].
        positions: [M, W, 3].
        orders: of the bond of each pair, 0 where there is none, [M, W, W].
        num_atoms, targets: [M].
        host_num_nodes: the number of atoms, on the host.
    """

    elements: Tensor
    positions: Tensor
    orders: Tensor
    num_atoms: Tensor
    targets: Tensor
    host_num_nodes: np.ndarray

    def __len__(self) -> int:
        return len(self.host_num_nodes)

    @property
    def device(self) -> torch.device:
        return self.targets.device

    def gather(self, index: Tensor, num_nodes: int) -> tuple[Molecules, Tensor]:
        """The molecules at `index` [...], padded or cut to `num_nodes` N, and their targets [...]."""
        largest = self.elements.shape[-1]
        kept, missing = min(num_nodes, largest), max(0, num_nodes - largest)
        elements = F.pad(self.elements[index, :kept], (0, missing))  # [..., N]
        positions = F.pad(self.positions[index, :kept], (0, 0, 0, missing))
        orders = F.pad(self.orders[index, :kept, :kept], (0, missing, 0, missing))
        node_mask = torch.arange(num_nodes, device=self.device) < self.num_atoms[index].unsqueeze(-1)
        kinds = torch.arange(len(ELEMENTS), device=self.device)
        atoms = (elements.unsqueeze(-1) == kinds) & node_mask.unsqueeze(-1)  # [..., N, 5]
        bonds = orders.unsqueeze(-1) == torch.arange(1, BOND_ORDERS + 1, device=self.device)  # [..., N, N, 3]
        molecules = Molecules(atoms.to(positions.dtype), bonds.to(positions.dtype), positions, node_mask)
        return molecules, self.targets[index]


def load_split(qm9: QM9, index: np.ndarray, targets: Tensor, device: torch.device) -> MoleculeSplit:
    """The molecules at `index` [M], which have these targets [M], on the device."""
    num_atoms, num_bonds = qm9.num_atoms[index], qm9.num_bonds[index]
    elements = np.zeros((len(index), num_atoms.max()), dtype=np.int8)
    positions = np.zeros((*elements.shape, 3), dtype=np.float32)
    orders = np.zeros((*elements.shape, elements.shape[1]), dtype=np.int8)
    owner, place, source = _places(qm9.num_atoms, index)
    elements[owner, place], positions[owner, place] = qm9.elements[source], qm9.positions[source]
    owner, _, source = _places(qm9.num_bonds, index)
    first, second, order = qm9.bonds[source].T
    orders[owner, first, second] = orders[owner, second, first] = order
    assert len(owner) == num_bonds.sum()
    return MoleculeSplit(
        *(torch.from_numpy(array).to(device) for array in (elements, positions, orders, num_atoms)),
        targets=targets.to(device),
        host_num_nodes=num_atoms,
    )


def _places(counts: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of all entries of the molecules at `index`: which of these it belongs to, its number there, its place of old."""
    chosen = counts[index]
    starts = np.cumsum(counts) - counts
    owner = np.repeat(np.arange(len(index)), chosen)
    place = np.arange(chosen.sum()) - np.repeat(np.cumsum(chosen) - chosen, chosen)
    return owner, place, starts[index][owner] + place
