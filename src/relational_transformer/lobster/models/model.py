"""What the three models have in common: a first part, a stack of layers of one shape, and a last part."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..data import GraphBatch

State = tuple[Tensor, ...]
"""What goes from layer to layer: nodes [..., N, size], and whatever else a model carries along."""


class LobsterModel(nn.Module):
    """Predicts the distance from source to target of each graph, [...].

    `first` makes a state of a batch, each of `layers` a new state of a batch and a state, and `last` the prediction.
    All layers have the same shapes, so that one compiled layer runs all of them, and parameters are in this order.
    """

    def __init__(self, first: nn.Module, layers: list[nn.Module], last: nn.Module) -> None:
        super().__init__()
        self.first = first
        self.layers = nn.ModuleList(layers)
        self.last = last

    def forward(self, graphs: GraphBatch) -> Tensor:
        state: State = self.first(graphs)
        for layer in self.layers:
            state = layer(graphs, state)
        return self.last(graphs, state)


def max_pool(nodes: Tensor, node_mask: Tensor) -> Tensor:
    """The largest value of every channel over the nodes that are present: [..., N, size] -> [..., size]."""
    return nodes.masked_fill(~node_mask.unsqueeze(-1), float("-inf")).amax(-2)


def precise_linear(linear: nn.Linear, inputs: Tensor) -> Tensor:
    """A Linear computed in float32 at least: in bfloat16 a distance of 33 would be told in steps of a quarter."""
    precise = torch.promote_types(inputs.dtype, torch.float32)
    return F.linear(inputs.to(precise), linear.weight.to(precise), linear.bias.to(precise))
