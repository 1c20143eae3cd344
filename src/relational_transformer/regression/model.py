"""The common structure of models of graphs: an input module, layers of one shape, and an output module."""

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relational_transformer.nn import RelationalTransformerLayer


class PaddedGraphs(Protocol):
    """A batch of padded graphs, a NamedTuple of tensors; node_mask [..., N], True = present."""

    @property
    def node_mask(self) -> Tensor: ...


State = tuple[Tensor, ...]
"""The tensors that pass from layer to layer: nodes [..., N, size], and further ones of a model."""


class LayeredModel(nn.Module):
    """Predicts a number for each graph, [...].

    `first` maps a batch to a state, each of `layers` a batch and a state to a new state, and `last` to the prediction.
    All layers have the same shapes, so that one compiled layer runs all of them. Parameters are in this order.
    """

    def __init__(self, first: nn.Module, layers: list[nn.Module], last: nn.Module) -> None:
        super().__init__()
        self.first = first
        self.layers = nn.ModuleList(layers)
        self.last = last

    def forward(self, graphs: PaddedGraphs) -> Tensor:
        state: State = self.first(graphs)
        for layer in self.layers:
            state = layer(graphs, state)
        return self.last(graphs, state)


class RelationalStep(nn.Module):
    """A `RelationalTransformerLayer` that masks absent nodes, whose vectors must be finite."""

    def __init__(self, layer: RelationalTransformerLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, graphs: PaddedGraphs, state: State) -> State:
        nodes, edges = state
        return tuple(self.layer(nodes, edges, node_mask=graphs.node_mask, checked=True))


def max_pool(nodes: Tensor, node_mask: Tensor) -> Tensor:
    """The maximum of every channel over the present nodes: [..., N, size] -> [..., size]."""
    return nodes.masked_fill(~node_mask.unsqueeze(-1), float("-inf")).amax(-2)


def precise_linear(linear: nn.Linear, inputs: Tensor) -> Tensor:
    """A Linear computed in float32 or better: bfloat16 has steps of a quarter at a distance of 33."""
    precise = torch.promote_types(inputs.dtype, torch.float32)
    return F.linear(inputs.to(precise), linear.weight.to(precise), linear.bias.to(precise))
