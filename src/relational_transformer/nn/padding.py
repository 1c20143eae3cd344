"""Absent nodes and their edges are set to zero once, where a graph enters a model.

A zero attention weight is not enough, because zero times NaN is NaN. With zeros in the padding, and no gradient through
them, its values affect no present node and no weight.
"""

import torch
from torch import Tensor


def present_nodes(nodes: Tensor, node_mask: Tensor) -> Tensor:
    """Nodes [..., N, size] with zeros where `node_mask` [..., N] is False.

    >>> present_nodes(torch.tensor([[1.0], [torch.nan]]), torch.tensor([True, False])).tolist()
    [[1.0], [0.0]]
    """
    return torch.where(node_mask.unsqueeze(-1), nodes, 0)


def present_edges(edges: Tensor, node_mask: Tensor) -> Tensor:
    """Edges [..., N, N, size] with zeros where one of the two nodes is absent.

    >>> edges = torch.full((2, 2, 1), torch.inf)
    >>> present_edges(edges, torch.tensor([False, True])).squeeze(-1).tolist()
    [[0.0, 0.0], [0.0, inf]]
    """
    return torch.where((node_mask.unsqueeze(-1) & node_mask.unsqueeze(-2)).unsqueeze(-1), edges, 0)
