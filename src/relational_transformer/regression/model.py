"""Models of graphs: a first part, a stack of layers of one shape, and a last part."""

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
"""What goes from layer to layer: nodes [..., N, size], and whatever else a model carries along."""


class LayeredModel(nn.Module):
    """Predicts a number for each graph, [...].

    `first` makes a state of a batch, each of `layers` a new state of a batch and a state, and `last` the prediction.
    All layers have the same shapes, so that one compiled layer runs all of them, and parameters are in this order.
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
    """A relational transformer layer in which nobody attends to an absent node; whatever absent ones hold is finite."""

    def __init__(self, layer: RelationalTransformerLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, graphs: PaddedGraphs, state: State) -> State:
        nodes, edges = state
        return tuple(self.layer(nodes, edges, node_mask=graphs.node_mask, checked=True))


def max_pool(nodes: Tensor, node_mask: Tensor) -> Tensor:
    """The largest value of every channel over the nodes that are present: [..., N, size] -> [..., size]."""
    return nodes.masked_fill(~node_mask.unsqueeze(-1), float("-inf")).amax(-2)


def precise_linear(linear: nn.Linear, inputs: Tensor) -> Tensor:
    """A Linear computed in float32 at least: in bfloat16 a distance of 33 would be told in steps of a quarter."""
    precise = torch.promote_types(inputs.dtype, torch.float32)
    return F.linear(inputs.to(precise), linear.weight.to(precise), linear.bias.to(precise))
