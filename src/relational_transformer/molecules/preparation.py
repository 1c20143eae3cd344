"""What a run learns from: the targets of all molecules, normalised by those of the training set, and the split."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .config import QM9Config
from .data import Indices, MoleculeSplit, load_split, split_indices
from .qm9 import QM9
from .scale import Scale
from .targets import in_units


class Prepared(NamedTuple):
    """The data of a run.

    Attributes:
        values: of all molecules in the target's unit, float64 [M].
        counts: how many atoms of each element they have, [M, 5].
        scale: of the training targets.
    """

    qm9: QM9
    indices: Indices
    values: Tensor
    counts: Tensor
    scale: Scale

    @classmethod
    def of(cls, qm9: QM9, config: QM9Config) -> "Prepared":
        """Those of a configuration, all on the CPU."""
        protocol, counts = config.protocol, qm9.counts()
        indices = split_indices(
            len(qm9),
            protocol.train_molecules,
            protocol.validation_molecules,
            protocol.test_molecules,
            protocol.split_seed,
        )
        values = torch.from_numpy(in_units(config.name, qm9.columns, counts))
        atoms = torch.from_numpy(counts)
        scale = Scale.of(values[indices.training], atoms[indices.training], config.target.extensive)
        return cls(qm9, indices, values, atoms, scale)

    def split(self, index: np.ndarray, device: torch.device, dtype: torch.dtype = torch.float32) -> MoleculeSplit:
        """The molecules at `index` with their normalised targets, on the device."""
        targets = self.scale.normalise(self.values[index], self.counts[index])
        return load_split(self.qm9, index, targets.to(dtype), device)

    def baselines(self) -> dict[str, float]:
        """Mean absolute test errors of always saying the mean of the training targets, and of a linear function of the
        atoms that is fitted to them."""
        train, test = self.indices.training, self.indices.test
        guesses = {
            name: Scale.of(self.values[train], self.counts[train], extensive=is_linear).guess(self.counts[test])
            for name, is_linear in (("mean", False), ("atoms", True))
        }
        return {name: (guess - self.values[test]).abs().mean().item() for name, guess in guesses.items()}
