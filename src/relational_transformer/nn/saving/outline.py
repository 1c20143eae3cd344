"""The outline of a module: the names and shapes of its tensors, before any memory is taken for them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook


class TooManyParameters(ValueError):
    """A module that has more of them than it may."""


def outline(build: Callable[[], nn.Module], most_parameters: int) -> nn.Module | None:
    """The module that `build` makes, on the meta device; None where it can only be built for good.

    A module that wants more parameters than `most_parameters` is given up in the middle, with `TooManyParameters`.

    >>> outline(lambda: nn.Linear(10**6, 10**6), most_parameters=2).weight.shape
    torch.Size([1000000, 1000000])
    """
    with _at_most(most_parameters), torch.device("meta"):
        try:
            return build()
        except RuntimeError:  # it looks into its tensors, which hold nothing here
            return None


def shared_names(module: nn.Module) -> dict[str, str]:
    """Names in the state of tensors that have another name there before, and that name: weights that are shared."""
    first: dict[int, str] = {}
    return {
        name: first[id(tensor)]
        for name, tensor in module.state_dict(keep_vars=True).items()
        if first.setdefault(id(tensor), name) != name
    }


def misfit(module: nn.Module, shapes: dict[str, list[int]]) -> str | None:
    """What is wrong first with tensors of these shapes as the state of a module; None where they fit."""
    state, shared = module.state_dict(keep_vars=True), shared_names(module)
    for name, tensor in state.items():
        if name in shared or not isinstance(tensor, Tensor):
            continue
        if name not in shapes:
            return f"{name} is missing"
        if not nn.parameter.is_lazy(tensor) and shapes[name] != list(tensor.shape):
            return f"{name} has shape {shapes[name]}, and should have {list(tensor.shape)}"
    strangers = sorted(shapes.keys() - state.keys())
    return f"{strangers[0][:80]} is unknown" if strangers else None


@contextmanager
def _at_most(count: int) -> Iterator[None]:
    """Within the block, this thread registers at most so many parameters in modules."""
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
