"""What a target is on average: by which targets are normalised, and which a model has to beat."""

from typing import NamedTuple

import torch
from torch import Tensor

LEAST_SPREAD = 1e-12


class Scale(NamedTuple):
    r"""A molecule with $c_k$ atoms of kind k has about $\text{mean} + \sum_k c_k\,\text{per\_atom}_k$, give or take
    `std`. All in float64; per_atom [kinds]."""

    mean: Tensor
    per_atom: Tensor
    std: Tensor

    @classmethod
    def of(cls, targets: Tensor, counts: Tensor, extensive: bool) -> "Scale":
        """That of training targets [M], given counts of their atoms [M, kinds]: the mean, and for what grows with the
        molecule a linear function of the counts, by least squares.

        >>> counts = torch.tensor([[4, 1], [6, 2], [8, 3], [4, 2]])
        >>> scale = Scale.of(torch.tensor([15.0, 27.0, 39.0, 25.0]), counts, extensive=True)
        >>> [round(value, 6) for value in scale.per_atom.tolist()]
        [1.0, 10.0]
        """
        targets, counts = targets.double(), counts.double()
        per_atom = counts.new_zeros(counts.shape[-1])
        if extensive:
            centred = counts - counts.mean(0)
            # The solution of least norm: a kind of atom that is in no molecule gets nothing.
            per_atom = torch.linalg.pinv(centred) @ (targets - targets.mean())
        mean = (targets - counts @ per_atom).mean()
        scale = cls(mean, per_atom, torch.ones_like(mean))
        return scale._replace(std=(targets - scale.guess(counts)).std().clamp_min(LEAST_SPREAD))

    def guess(self, counts: Tensor) -> Tensor:
        """What is expected of molecules with these counts of atoms, [..., kinds] -> [...]."""
        return self.mean + counts.to(self.per_atom) @ self.per_atom

    def normalise(self, targets: Tensor, counts: Tensor) -> Tensor:
        """How far targets are from what is expected, in units of the spread."""
        return (targets.to(self.std) - self.guess(counts)) / self.std
