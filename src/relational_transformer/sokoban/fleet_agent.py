"""The agents of a fleet, run module by module with one compiled layer."""

from collections.abc import Sequence

import torch
from torch import Tensor

from relational_transformer.fleet.graphs import recomputed
from relational_transformer.fleet.pieces import Function, Parameters, Pieces

from .agent import Agent, Decision, Graph, Memo
from .game.observation import Observation
from .game.size_classes import SizeClass


class FleetAgent:
    """Decisions of all seeds, equal to those of `agent(observation, memo)` for each seed.

    The parameters are laid out once for all steps of a window (`lay_out`) as one vector for each module of the agent,
    so that the backward pass sums one gradient for each module and not one for each parameter. Layers of equal shapes
    share one compiled function. With `classes`, the games of each class are embedded and run through the layers
    separately, padded to the size of their levels, which changes no decision. Decisions are made for all games
    together.

    Attributes:
        pieces: makes functions that are compiled if the agent is.
        recompute: whether steps are recomputed in the backward pass, which does not change the result.
    """

    def __init__(self, agent: Agent, *, compiled: bool, classes: Sequence[SizeClass] | None = None) -> None:
        self.recompute = False
        self.pieces = pieces = Pieces(next(agent.parameters()).device, compiled=compiled, even_sizes=True)
        shapes = {name: parameter.shape for name, parameter in agent.named_parameters()}
        embedding = {name: shape for name, shape in shapes.items() if "_embedding." in name}
        others = {name: shape for name, shape in shapes.items() if not name.startswith("layers.")}
        deciding = {name: shape for name, shape in others.items() if name not in embedding}
        self._names = [list(embedding)]
        embed = pieces.plain_of_vector(agent, "embed", embedding)
        self._embed = [pieces.compile(_cut_first(embed, one)) for one in classes or [None]]
        functions: dict[tuple[torch.Size, ...], Function] = {}
        self._layers: list[Function] = []
        for number, layer in enumerate(agent.layers):
            own = {name: parameter.shape for name, parameter in layer.named_parameters()}
            # Matrices first: after an odd number of biases they would be unaligned.
            own = dict(sorted(own.items(), key=lambda item: len(item[1]) == 1))
            self._names.append([f"layers.{number}.{name}" for name in own])
            kind = tuple(own.values())
            if kind not in functions:
                functions[kind] = pieces.of_vector(layer, "forward", own)
            self._layers.append(functions[kind])
        self._names.append(list(deciding))
        self._decide = pieces.compile(_joined_first(pieces.plain_of_vector(agent, "decide", deciding)))

    def lay_out(self, named: Parameters) -> list[Tensor]:
        """Parameters [S, *shape] by name as vectors: one for the embeddings, one for every layer, one for the
        decision."""
        return [torch.cat([named[name].flatten() for name in names]) for names in self._names]

    def __call__(self, laid_out: list[Tensor], observation: Observation, memo: Memo) -> Decision:
        """Decide for all seeds: observation and memo [S, B, ...] -> decision [S, B, ...]."""
        if not self.recompute or not torch.is_grad_enabled():
            return self._run(laid_out, observation, memo)
        return recomputed(self._run, laid_out, observation, memo)

    def _run(self, laid_out: list[Tensor], observation: Observation, memo: Memo) -> Decision:
        embedding, *layers, deciding = laid_out
        of_classes = []
        for embed in self._embed:
            nodes, edges, node_mask = embed(embedding, observation, memo)
            if edges is not None and torch.is_grad_enabled():
                # The first edges require gradients like all others, so that one compiled function runs all layers.
                edges = edges.requires_grad_()
            for layer, values in zip(self._layers, layers, strict=True):
                nodes, edges = layer(values, nodes, edges, node_mask)
            of_classes.append(nodes)
        return self._decide(deciding, of_classes)


def _cut_first(embed: Function, one: SizeClass | None) -> Function:
    """`embed` for the games of one class, given observations and memos of all games."""

    def embed_class(values: Tensor, observation: Observation, memo: Memo) -> Graph:
        if one is None:
            return embed(values, observation, memo)
        return embed(values, one.cut(observation), Memo(memo.vector[:, one.games], memo.kept[:, one.games]))

    return embed_class


def _joined_first(decide: Function) -> Function:
    """`decide` for all games, given the nodes [S, B, N, size] of each class, of which the first is the core."""

    def decide_all(values: Tensor, of_classes: list[Tensor]) -> Decision:
        return decide(values, torch.cat([nodes[..., :1, :] for nodes in of_classes], dim=1))

    return decide_all
