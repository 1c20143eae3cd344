"""Autograd of layers over all steps of a trajectory: steps leave rows, the beginning makes gradients of them."""

from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import Tensor


class LayersOverSteps(Protocol):
    """What runs a step forward and backward, and makes the parameters' gradients after all of them."""

    num_steps: int
    steps_differentiated: int

    def forward(self, step: int, *tensors: Tensor) -> tuple[Tensor, ...]: ...

    def backward(self, step: int, *gradients: Tensor) -> tuple[Tensor, ...]: ...

    def parameter_gradients(self) -> Iterable[Tensor]: ...


class Begin(torch.autograd.Function):
    """Ties the parameters to all steps. It returns a number that steps take and do not look at; its backward pass,
    which autograd makes after those of all steps, finds the gradients of the parameters in what they have left."""

    @staticmethod
    def forward(ctx: Any, layers: LayersOverSteps, *parameters: Tensor) -> Tensor:
        ctx.layers = layers
        return parameters[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        layers, ctx.layers = ctx.layers, None
        if layers.steps_differentiated != layers.num_steps:
            done = f"{layers.steps_differentiated} of the trajectory's {layers.num_steps} steps"
            raise RuntimeError(f"{done} have a gradient.")
        return None, *layers.parameter_gradients()


class Step(torch.autograd.Function):
    """One step: what it is given, and what it returns, are tensors of all seeds."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, layers: LayersOverSteps, step: int, begun: Tensor, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.layers, ctx.step = layers, step
        return layers.forward(step, *tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        layers, ctx.layers = ctx.layers, None
        return None, None, None, *layers.backward(ctx.step, *gradients)
