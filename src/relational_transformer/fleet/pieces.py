"""The functions that a training step consists of: each runs all seeds of a fleet and is compiled once."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .compiling import compiled_for
from .over_seeds import Method, over_seeds

Function = Callable[..., Any]


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
