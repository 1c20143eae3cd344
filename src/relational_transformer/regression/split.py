"""What a data set of graphs is to the training step and the evaluation."""

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor


class Split(Protocol):
    """All graphs of a split on the device; dense tensors are only made of those of a batch."""

    @property
    def host_num_nodes(self) -> np.ndarray:
        """Nodes of every graph [M], on the host."""
        ...

    def __len__(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    def gather(self, index: Tensor, num_nodes: int) -> tuple[Any, Tensor]:
        """The graphs at `index` [...], padded or cut to `num_nodes`, as a NamedTuple of tensors with a `node_mask`; and
        their targets [...]."""
        ...
