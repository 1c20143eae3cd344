"""The seed axis: how ``torch.vmap`` over models becomes one launch.

Every tensor that enters or leaves a kernel's operator starts with a seed axis S. Outside ``vmap`` it has length 1; a
``vmap`` over V models makes it V * S, and the kernel's grid covers it, so a fleet costs one launch.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def fold_axis(tensor: Tensor, axis: int | None, size: int) -> Tensor:
    """Merge a vmapped axis into the seed axis: [S, ...] with V somewhere -> [V * S, ...]."""
    stacked = tensor.expand(size, *tensor.shape) if axis is None else tensor.movedim(axis, 0)
    return stacked.flatten(0, 1)


def unfold_axis(tensor: Tensor, size: int) -> Tensor:
    """Undo `fold_axis`: [V * S, ...] -> [V, S, ...]."""
    return tensor.reshape(size, tensor.shape[0] // size, *tensor.shape[1:])


def seed_rule(function: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """The vmap rule of a function whose tensors all start with the seed axis."""

    def rule(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        folded = [
            fold_axis(argument, axis, info.batch_size) if isinstance(argument, Tensor) else argument
            for argument, axis in zip(arguments, in_dims, strict=True)
        ]
        outputs = function(*folded)
        return tuple(unfold_axis(output, info.batch_size) for output in outputs), (0,) * len(outputs)

    return rule


def differentiable(
    operator: Any, save: Callable[..., None], differentiate: Callable[..., tuple[Any, ...]]
) -> Callable[..., Any]:
    """Give an operator its gradient and its vmap rule. Returns the function to call instead of the operator.

    Compiled code calls the operator itself. Other code calls it through an autograd function, which `torch.func.grad`
    supports.
    """
    torch.library.register_autograd(operator, differentiate, setup_context=save)
    torch.library.register_vmap(operator, seed_rule(operator))

    class Seeded(torch.autograd.Function):
        @staticmethod
        def forward(*arguments: Any) -> Any:
            return operator(*arguments)

        setup_context = staticmethod(save)  # pyright: ignore[reportAssignmentType]
        backward = staticmethod(differentiate)  # pyright: ignore[reportAssignmentType]

        @staticmethod
        def vmap(info: Any, in_dims: Any, *arguments: Any) -> tuple[Any, Any]:
            return seed_rule(Seeded.apply)(info, in_dims, *arguments)

    def call(*arguments: Any) -> Any:
        return operator(*arguments) if torch.compiler.is_compiling() else Seeded.apply(*arguments)

    return call


def differentiable_once(operator: Any) -> Callable[..., Any]:
    """`differentiable` for a backward operator, which has no gradient of its own."""

    def save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        del ctx, inputs, output

    def differentiate(*_: Any) -> tuple[Any, ...]:
        raise RuntimeError("The fused kernels cannot be differentiated twice; use_kernels(False) takes the plain path.")

    return differentiable(operator, save, differentiate)
