"""Methods of one model as functions of a fleet, by vmap over the first axis of every tensor, compiled once each."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from .compiling import compiled_for

Parameters = dict[str, Tensor]
Function = Callable[..., Any]
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


class Pieces:
    """Makes functions of all seeds of a fleet, and compiles them if `compiled`.

    A function that is made once and called for every step, or for every layer of the same shapes, is compiled once.
    Functions that are called many times take all parameters as one vector: then autograd sums one gradient and not one
    for each parameter.

    Args:
        compiled: whether to compile the functions.
        even_sizes: whether the sizes of all large matrix products are multiples of eight (see `compiled_for`).

    >>> linear = nn.Linear(3, 2)
    >>> pieces = Pieces(torch.device("cpu"), compiled=False)
    >>> shapes = {name: parameter.shape for name, parameter in linear.named_parameters()}
    >>> pieces.of_vector(linear, "forward", shapes)(torch.randn(4 * (6 + 2)), torch.randn(4, 5, 3)).shape
    torch.Size([4, 5, 2])
    """

    def __init__(self, device: torch.device, *, compiled: bool, even_sizes: bool = False) -> None:
        self.device, self.compiled, self.even_sizes = device, compiled, even_sizes

    def compile(self, function: Function) -> Function:
        """A function on tensors of fixed shapes, compiled if `compiled`."""
        return compiled_for(function, self.device, even_sizes=self.even_sizes) if self.compiled else function

    def of(self, module: nn.Module, method: Method) -> Function:
        """`f(parameters, *arguments)`, with parameters [S, *shape] by name."""
        return self.compile(over_seeds(module, method))

    def of_vector(self, module: nn.Module, method: Method, shapes: Mapping[str, torch.Size]) -> Function:
        """`f(values, *arguments)`, with the parameters of these shapes as one vector of blocks [S, *shape]."""
        return self.compile(self.plain_of_vector(module, method, shapes))

    def plain_of_vector(self, module: nn.Module, method: Method, shapes: Mapping[str, torch.Size]) -> Function:
        """`of_vector`, but never compiled: for a few operations, or as part of a larger function."""
        call = over_seeds(module, method)
        sizes = [shape.numel() for shape in shapes.values()]

        def function(values: Tensor, *arguments: Any) -> Any:
            seeds = len(values) // sum(sizes)
            blocks = zip(shapes.items(), values.split([seeds * size for size in sizes]), strict=True)
            return call({name: block.view(seeds, *shape) for (name, shape), block in blocks}, *arguments)

        return function
