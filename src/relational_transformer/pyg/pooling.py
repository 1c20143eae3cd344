"""One vector for each graph, from those of its nodes."""

from typing import Literal

import torch
from torch import Tensor

Pooling = Literal["mean", "sum", "max"]


def pool(nodes: Tensor, node_mask: Tensor, pooling: Pooling) -> Tensor:
    """The mean, sum or maximum over the nodes that are there; zeros for a graph without any.

    Shapes: nodes [..., N, size], node_mask [..., N] -> [..., size].

    >>> nodes, node_mask = torch.tensor([[1.0], [5.0], [9.0]]), torch.tensor([True, True, False])
    >>> [pool(nodes, node_mask, pooling).item() for pooling in ("mean", "sum", "max")]
    [3.0, 6.0, 5.0]
    """
    present = node_mask.unsqueeze(-1)
    if pooling == "max":
        largest = nodes.masked_fill(~present, -torch.inf).amax(-2) if nodes.shape[-2] else nodes.sum(-2)
        return largest.masked_fill(~present.any(-2), 0.0)
    total = nodes.masked_fill(~present, 0.0).sum(-2)
    return total / present.sum(-2).clamp_min(1) if pooling == "mean" else total
