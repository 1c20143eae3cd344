"""The outline of a module: the names and shapes of its tensors, before memory is allocated for them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook


class TooManyParameters(ValueError):
    """A module has more parameters than allowed."""


def outline(build: Callable[[], nn.Module], most_parameters: int) -> nn.Module | None:
    """The module that `build` makes, on the meta device; None where it cannot be built there.

    Building a module with more than `most_parameters` parameters is aborted with `TooManyParameters`.

    >>> outline(lambda: nn.Linear(10**6, 10**6), most_parameters=2).weight.shape
    torch.Size([1000000, 1000000])
    """
    with _at_most(most_parameters), torch.device("meta"):
        try:
            return build()
        except RuntimeError:  # the constructor reads its tensors, which have no values here
            return None


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


@contextmanager
def _at_most(count: int) -> Iterator[None]:
    """Within the context, this thread may register at most `count` parameters in modules."""
    thread, left = threading.get_ident(), count

    def note(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
        nonlocal left
        if threading.get_ident() != thread:
            return
        left -= 1
        if left < 0:
            raise TooManyParameters(f"it has more than {count} parameters")

    handle = register_module_parameter_registration_hook(note)
    try:
        yield
    finally:
        handle.remove()
