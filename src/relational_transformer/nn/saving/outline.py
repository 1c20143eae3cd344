"""The outline of a module: the names and shapes of its tensors, before memory is allocated for them; and its bounds."""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_buffer_registration_hook as on_buffer
from torch.nn.modules.module import register_module_parameter_registration_hook as on_parameter


class TooLarge(ValueError):
    """A module has more tensors, or numbers in them, than allowed."""


def outline(build: Callable[[], nn.Module]) -> nn.Module | None:
    """The module that `build` makes, on the meta device; None where it cannot be built there.

    >>> outline(lambda: nn.Linear(10**6, 10**6)).weight.shape
    torch.Size([1000000, 1000000])
    """
    with torch.device("meta"):
        try:
            return build()
        except RuntimeError:  # the constructor reads its tensors, which have no values here
            return None


@contextmanager
def at_most(tensors: int, numbers: float = math.inf) -> Iterator[None]:
    """Within the block, this thread registers at most `tensors` parameters and buffers in modules, with `numbers`
    elements.

    Building a larger module is aborted with `TooLarge`. A tensor is counted before it is filled; until then it takes no
    memory.

    >>> with at_most(2, 100):
    ...     nn.Linear(10, 10)
    Traceback (most recent call last):
        ...
    relational_transformer.nn.saving.outline.TooLarge: it has more than 100 numbers
    """
    thread, left = threading.get_ident(), {"tensors": tensors, "numbers": numbers}

    def note(module: nn.Module, name: str, tensor: Tensor | None) -> None:
        if threading.get_ident() != thread or tensor is None:
            return
        left["tensors"] -= 1
        left["numbers"] -= 0 if nn.parameter.is_lazy(tensor) else tensor.numel()
        for what, most in (("tensors", tensors), ("numbers", numbers)):
            if left[what] < 0:
                raise TooLarge(f"it has more than {most} {what}")

    handles = on_parameter(note), on_buffer(note)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def shared_names(module: nn.Module) -> dict[str, str]:
    """Shared weights: names in the state of a module, mapped to an earlier name of the same tensor."""
    first: dict[int, str] = {}
    return {
        name: first[id(tensor)]
        for name, tensor in module.state_dict(keep_vars=True).items()
        if first.setdefault(id(tensor), name) != name
    }


def misfit(module: nn.Module, shapes: dict[str, list[int]]) -> str | None:
    """The first mismatch between tensors of these shapes and the state of a module; None where they fit."""
    state, shared = module.state_dict(keep_vars=True), shared_names(module)
    for name, tensor in state.items():
        if name in shared or not isinstance(tensor, Tensor):
            continue
        if name not in shapes:
            return f"{name} is missing"
        if not nn.parameter.is_lazy(tensor) and shapes[name] != list(tensor.shape):
            return f"{name} has shape {shapes[name]}, expected {list(tensor.shape)}"
    strangers = sorted(shapes.keys() - state.keys())
    return f"{strangers[0][:80]} is unknown" if strangers else None
