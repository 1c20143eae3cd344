"""Methods of a network for all seeds of a fleet, its parameters in one vector."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from relational_transformer.reasoning import folded_steps

from .compiling import compiled_for
from .fleet import Fleet
from .over_seeds import Method, over_seeds

COMPILED = ("encode_inputs", "training_step", "loss", folded_steps.begin, folded_steps.between, folded_steps.leave)
"""Methods that are worth compiling; the others are a few operations, once a trajectory."""


class FleetMethods:
    """Calls a method of the network by its name, `methods("loss", values, ...)`, or a function of the network;
    tensors have the seeds in front.

    `values` is a vector like `fleet.values`, or that of some of the parameters that `part` has named, or None for a
    method that uses none. Whole vectors and not a hundred parameters, so that over the steps of a trajectory one
    gradient is added up.
    """

    def __init__(self, network: nn.Module, fleet: Fleet, device: torch.device, compiled: bool) -> None:
        self.network, self.fleet, self.device, self.compiled = network, fleet, device, compiled
        self.names = tuple(fleet.shapes)
        self._calls: dict[tuple[Method, tuple[str, ...]], Callable[..., Any]] = {}

    def part(self, names: tuple[str, ...]) -> "FleetMethods":
        """The same methods for vectors that hold these parameters alone, in this order; they must use no other."""
        part = FleetMethods(self.network, self.fleet, self.device, self.compiled)
        part.names, part._calls = names, self._calls
        return part

    def compiled_once(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function, compiled where anything is."""
        if not self.compiled:
            return function
        key = (function.__qualname__, ())
        if key not in self._calls:
            self._calls[key] = compiled_for(function, self.device)
        return self._calls[key]

    def __call__(self, method: Method, values: Tensor | None, *arguments: Any) -> Any:
        names = self.names if values is not None else ()
        if (method, names) not in self._calls:
            self._calls[method, names] = self._make(method, names)
        return self._calls[method, names](values, *arguments)

    def _make(self, method: Method, names: tuple[str, ...]) -> Callable[..., Any]:
        call, fleet = over_seeds(self.network, method), self.fleet

        def method_of_fleet(values: Tensor | None, *arguments: Any) -> Any:
            return call({} if values is None else fleet.split(values, names), *arguments)

        return compiled_for(method_of_fleet, self.device) if self.compiled and method in COMPILED else method_of_fleet
