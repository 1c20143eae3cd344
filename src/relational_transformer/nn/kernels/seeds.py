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
    """Take it apart again: [V * S, ...] -> [V, S, ...]."""
    return tensor.reshape(size, tensor.shape[0] // size, *tensor.shape[1:])


def register_seed_axis(operator: Callable[..., Any]) -> None:
    """Give an operator whose tensors all start with the seed axis its vmap rule."""

    def rule(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        folded = [
            fold_axis(argument, axis, info.batch_size) if isinstance(argument, Tensor) else argument
            for argument, axis in zip(arguments, in_dims, strict=True)
        ]
        outputs = operator(*folded)
        if isinstance(outputs, Tensor):
            return unfold_axis(outputs, info.batch_size), 0
        return tuple(unfold_axis(output, info.batch_size) for output in outputs), (0,) * len(outputs)

    torch.library.register_vmap(operator, rule)  # type: ignore[arg-type]
