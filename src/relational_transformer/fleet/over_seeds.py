"""Functions of one model as functions of a fleet: vmap over the first axis of every tensor."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

Parameters = dict[str, Tensor]


Method = str | Callable[..., Any]
"""A method of a module by its name, or a function whose first argument is the module."""


class _Method(nn.Module):
    """A module whose forward is a method of another one: `functional_call` calls forward alone."""

    def __init__(self, module: nn.Module, method: Method) -> None:
        super().__init__()
        self.module = module
        self.method = method

    def forward(self, *arguments: Any) -> Any:
        if isinstance(self.method, str):
            return getattr(self.module, self.method)(*arguments)
        return self.method(self.module, *arguments)


def over_seeds(module: nn.Module, method: Method) -> Callable[..., Any]:
    """A method of a module for a fleet: `f(parameters, *arguments)`, in which every tensor has the seeds in front.

    Arguments and results may be nested in dicts, tuples and named tuples, with None among them (which `vmap` alone
    does not take).

    >>> linear = nn.Linear(3, 2)
    >>> fleet = {name: torch.stack([value.detach()] * 4) for name, value in linear.named_parameters()}
    >>> over_seeds(linear, "forward")(fleet, torch.randn(4, 5, 3)).shape
    torch.Size([4, 5, 2])
    """
    wrapped = _Method(module, method)

    def call(parameters: Parameters, *arguments: Any) -> Any:
        leaves, structure = pytree.tree_flatten(arguments)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        result_structure: list[Any] = []

        def one(parameters: Parameters, tensors: list[Tensor]) -> tuple[Tensor, ...]:
            remaining = iter(tensors)
            filled = [next(remaining) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            named = {f"module.{name}": value for name, value in parameters.items()}
            result = torch.func.functional_call(wrapped, named, pytree.tree_unflatten(filled, structure))
            result_leaves, described = pytree.tree_flatten(result)
            result_structure.append((described, [isinstance(leaf, Tensor) for leaf in result_leaves]))
            return tuple(leaf for leaf in result_leaves if isinstance(leaf, Tensor))

        first, *_ = (*parameters.values(), *tensors)
        if len(first) == 1:  # one seed: without vmap, which takes time of its own
            alone = one({name: value[0] for name, value in parameters.items()}, [tensor[0] for tensor in tensors])
            fleet = [result.unsqueeze(0) for result in alone]
        else:
            fleet = torch.vmap(one, in_dims=(0 if parameters else None, 0))(parameters, tensors)
        # Contiguous, so that the state after a step has the same strides as the state before it.
        results = iter([result.contiguous() for result in fleet])
        described, is_tensor = result_structure[-1]
        return pytree.tree_unflatten([next(results) if real else None for real in is_tensor], described)

    return call
