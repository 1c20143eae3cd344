"""Adam on gradients that are clipped, each seed's by itself: a few passes over all seeds."""

from collections.abc import Callable

import torch
from torch import Tensor

from .adam import Rule, State, count_step, state_of, update
from .clipping import Clipping, clipped, clipping_of
from .compiling import compiled_for
from .fleet import Fleet


class ClippedAdam:
    """Adam on gradients whose norm is at most `clip`, that of each seed by itself.

    Compiled, norms, clipping and Adam's rule are a handful of kernels, however many parameters and seeds there are.
    """

    def __init__(
        self, fleet: Fleet, learning_rate: float, epsilon: float, clip: float | None, compiled: bool = False
    ) -> None:
        self.fleet = fleet
        self.learning_rate, self.epsilon = learning_rate, epsilon
        self.clipping = clipping_of(fleet, clip)
        device = fleet.values.device
        self._count: Callable[..., list[Tensor]] = compiled_for(count_step, device) if compiled else count_step
        self._update: Callable[..., None] = compiled_for(update_clipped, device) if compiled else update_clipped

    @torch.no_grad()
    def step(self, gradient: Tensor) -> None:
        """One step along a gradient, a vector like `fleet.values`."""
        fleet = self.fleet
        rule = Rule(self.learning_rate, self.epsilon, *self._count(fleet.count.view(1), gradient.dtype))
        self._update(state_of(fleet), gradient, rule, self.clipping)


def update_clipped(state: State, gradient: Tensor, rule: Rule, clipping: Clipping | None) -> None:
    """Clip, then Adam's rule; the state is changed in place, the gradient is not."""
    update(state, clipped(gradient, clipping), rule)
