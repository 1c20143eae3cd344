"""The agents of a fleet, run layer by layer from one vector of parameters, with one compiled layer for all of them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from relational_transformer.training.fleet import Fleet
from relational_transformer.training.over_seeds import over_seeds

from .agent import Agent, Decision, Memo
from .observation import Observation

Function = Callable[..., Any]


class FleetAgent:
    """Decisions of all seeds from a vector like `Fleet.values`; the same numbers as `agent(observation, memo)`.

    The vector is cut once for all steps of a window (`split`) into one for each part of the agent, so that the backward
    pass adds up one gradient a part and not one a parameter. Layers of equal shapes are one function, compiled once.

    Attributes:
        recompute: whether steps are computed again in the backward pass, which changes no number.
    """

    def __init__(self, agent: Agent, fleet: Fleet, compiled: bool) -> None:
        self.fleet = fleet
        self.recompute = False
        others = {name: shape for name, shape in fleet.shapes.items() if not name.startswith("layers.")}
        embedding = {name: shape for name, shape in others.items() if "_embedding." in name}
        deciding = {name: shape for name, shape in others.items() if name not in embedding}
        self._names = [list(embedding)]
        self._embed = self._function(agent, "embed", embedding)
        functions: dict[tuple[torch.Size, ...], Function] = {}
        self._layers: list[Function] = []
        for number, layer in enumerate(agent.layers):
            shapes = {name: parameter.shape for name, parameter in layer.named_parameters()}
            # Matrices first: after an odd number of biases they would begin at odd addresses.
            shapes = dict(sorted(shapes.items(), key=lambda item: len(item[1]) == 1))
            self._names.append([f"layers.{number}.{name}" for name in shapes])
            kind = tuple(shapes.values())
            if kind not in functions:
                function = self._function(layer, "forward", shapes)
                functions[kind] = torch.compile(function, fullgraph=True, dynamic=False) if compiled else function
            self._layers.append(functions[kind])
        self._names.append(list(deciding))
        self._decide = self._function(agent, "decide", deciding)

    def split(self, values: Tensor) -> list[Tensor]:
        """From a vector like `Fleet.values` those of the embeddings, of every layer, and of the decision."""
        named = self.fleet.split(values)
        return [torch.cat([named[name].flatten() for name in names]) for names in self._names]

    def __call__(self, parts: list[Tensor], observation: Observation, memo: Memo) -> Decision:
        """Everything has the seeds in front: observation and memo [S, B, ...] -> decision [S, B, ...]."""
        if not self.recompute or not torch.is_grad_enabled():
            return self._run(parts, observation, memo)
        return checkpoint(
            self._run, parts, observation, memo,
            use_reentrant=False, preserve_rng_state=False, determinism_check="none",
        )  # fmt: skip

    def _run(self, parts: list[Tensor], observation: Observation, memo: Memo) -> Decision:
        embedding, *layers, deciding = parts
        nodes, edges, node_mask = self._embed(embedding, observation, memo)
        if edges is not None and torch.is_grad_enabled():
            # The first edges must look like all others to the compiler: they have gradients too.
            edges = edges.requires_grad_()
        for layer, values in zip(self._layers, layers, strict=True):
            nodes, edges = layer(values, nodes, edges, node_mask)
        return self._decide(deciding, nodes)

    def _function(self, module: nn.Module, method: str, shapes: dict[str, torch.Size]) -> Function:
        """A part of the agent as a function of the vector of its parameters."""
        seeds = self.fleet.num_seeds
        sizes = [seeds * shape.numel() for shape in shapes.values()]
        call = over_seeds(module, method)

        def function(values: Tensor, *arguments: Any) -> Any:
            blocks = zip(shapes.items(), values.split(sizes), strict=True)
            return call({name: block.view(seeds, *shape) for (name, shape), block in blocks}, *arguments)

        return function
