"""The training steps of a run, as the trainer sees them."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from relational_transformer.fleet.fleet import Fleet
from relational_transformer.fleet.graphs import Graphs


class Steps(ABC):
    """Training steps that are made of numbers drawn beforehand. No method waits for the device.

    The tensors that a step changes keep their addresses, so that `graphs` can capture it as a CUDA graph.

    >>> class Counting(Steps):
    ...     def make(self, number):
    ...         self.losses += 1.0
    >>> steps = Counting(Fleet([torch.nn.Linear(3, 2)], torch.device("cpu")))
    >>> steps.make(0)
    >>> steps.losses
    tensor([1.], dtype=torch.float64)

    Args:
        dtype: of the sum of losses.

    Attributes:
        position: the number of the next step among those that are loaded, [1].
        losses: the loss of every seed, summed over the steps since `forget`, [S].
        finite: whether every loss of a seed so far was a finite number, bool [S].
        recompute: whether activations are recomputed in the backward pass; None until the first step has decided.
    """

    def __init__(self, fleet: Fleet, dtype: torch.dtype = torch.float64) -> None:
        self.fleet, self.device = fleet, fleet.values.device
        self.position: Tensor = torch.zeros(1, dtype=torch.long, device=self.device)
        self.losses: Tensor = torch.zeros(fleet.num_seeds, dtype=dtype, device=self.device)
        self.finite: Tensor = torch.ones(fleet.num_seeds, dtype=torch.bool, device=self.device)
        self.recompute: bool | None = None
        self.graphs = Graphs(self.device, self.changed)

    @abstractmethod
    def make(self, number: int) -> None:
        """Run training step `number` of those that are loaded. Steps are run in order."""

    @property
    def must_capture(self) -> bool:
        """On CUDA: whether the next step captures a graph, though steps were made before: the part that was loaded last
        may need larger tensors."""
        return False

    def rehearse(self) -> None:
        """Call what is compiled for training steps, as a step does; what it changes does not matter."""
        self.make(0)

    def forget(self) -> None:
        """Set the sums over steps to zero."""
        self.losses.zero_()

    def state(self) -> dict[str, Tensor]:
        """Further tensors that one step changes and the next reads, by name. Checkpoints include them."""
        return {}

    def changed(self) -> dict[str, Tensor]:
        """Everything that a step changes."""
        own = {"position": self.position, "losses": self.losses, "finite": self.finite}
        return {**self.fleet.state(), **own, **self.state()}
