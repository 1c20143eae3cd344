"""Small random layers and graphs for the tests."""

import torch
from torch import Tensor, nn

from relational_transformer import RelationalTransformer, RelationalTransformerLayer

SIZES = {"node_size": 6, "edge_size": 5, "num_heads": 2, "head_size": 3, "node_hidden_size": 7}


def randomise(module: nn.Module) -> nn.Module:
    """Make every parameter count: biases and norms away from their initial zeros and ones."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
    return module


def make_layer(**changes) -> RelationalTransformerLayer:
    layer = RelationalTransformerLayer(**{**SIZES, "edge_hidden_sizes": (4, 3), **changes})
    randomise(layer)
    return layer


def make_stack(**changes) -> RelationalTransformer:
    sizes = {**SIZES, "edge_hidden_sizes": (4, 3), "num_layers": 2, **changes}
    stack = RelationalTransformer(4, 3, **sizes)
    randomise(stack)
    return stack


def make_graph(*batch: int, num_nodes: int = 4, node_size: int = 6, edge_size: int = 5) -> tuple[Tensor, Tensor]:
    return torch.randn(*batch, num_nodes, node_size), torch.randn(*batch, num_nodes, num_nodes, edge_size)
