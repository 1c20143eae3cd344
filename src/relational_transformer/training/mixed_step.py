"""Training steps on examples of several sizes in turn. Every size has its own captured steps."""

from collections.abc import Sequence

from torch import Tensor

from .data import Draw
from .step import TrainingStep


class MixedSteps:
    """Step k trains on size number k modulo the number of sizes. All sizes share the compiled functions, the parameters
    and the sums over steps.

    Args:
        sizes: the training steps of each size, all made by `TrainingStep.of_size`; the largest comes last.
    """

    def __init__(self, sizes: Sequence[TrainingStep]) -> None:
        self.sizes = tuple(sizes)

    @property
    def losses(self) -> Tensor:
        return self.sizes[0].losses

    @property
    def finite(self) -> Tensor:
        return self.sizes[0].finite

    @property
    def recompute(self) -> bool | None:
        """As in `TrainingStep`; the largest size decides for all."""
        return self.sizes[-1].recompute

    @recompute.setter
    def recompute(self, recompute: bool | None) -> None:
        for size in self.sizes:
            size.recompute = recompute

    @property
    def layers_are_kernels(self) -> bool:
        """Whether every layer of every size is one fused kernel, forward and backward."""
        return all(size.layers_are_kernels for size in self.sizes)

    @property
    def are_recorded(self) -> bool:
        """Whether the graphs of all steps of every size are captured."""
        return all(size.are_recorded for size in self.sizes)

    @property
    def must_capture(self) -> bool:
        """As in `Steps`."""
        return any(size.must_capture for size in self.sizes)

    def load(self, draws: Sequence[Draw], position: int = 0) -> None:
        """Load the random numbers of the next steps of each size; step number `position` of all is the next one."""
        for turn, (size, drawn) in enumerate(zip(self.sizes, draws, strict=True)):
            size.load(drawn, -((turn - position) // len(self.sizes)))

    def state(self) -> dict[str, Tensor]:
        return {}

    def forget(self) -> None:
        """Set the sum of losses to zero."""
        self.sizes[0].forget()

    def make(self, number: int) -> None:
        """Run training step `number` of those loaded. Steps must be run in order."""
        largest = self.sizes[-1]
        largest.begin()
        self.recompute = largest.recompute
        for size in reversed(self.sizes):  # the largest first, whose memory the others reuse
            size.record()
        before, turn = divmod(number, len(self.sizes))
        self.sizes[turn].run(before)

    def rehearse(self) -> None:
        """As that of a `TrainingStep`, of every size; the largest first, which decides whether to recompute."""
        self.sizes[-1].decide()
        self.recompute = self.sizes[-1].recompute
        for size in reversed(self.sizes):
            size.rehearse()
