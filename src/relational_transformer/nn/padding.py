"""What absent nodes hold is made zero, once, where a graph comes in.

Zero times NaN is NaN: it is not enough that an absent node has no weight. With zeros in its place, and no gradient
through them, nothing that padding holds can reach a present node or a weight.
"""

import torch
from torch import Tensor


def present_nodes(nodes: Tensor, node_mask: Tensor) -> Tensor:
    """Nodes [..., N, size] with zeros where `node_mask` [..., N] says that there is none.

    >>> present_nodes(torch.tensor([[1.0], [torch.nan]]), torch.tensor([True, False])).tolist()
    [[1.0], [0.0]]
    """
    return torch.where(node_mask.unsqueeze(-1), nodes, 0)


def present_edges(edges: Tensor, node_mask: Tensor) -> Tensor:
    """Edges [..., N, N, size] with zeros where one of the two nodes is not there.

    >>> edges = torch.full((2, 2, 1), torch.inf)
    >>> present_edges(edges, torch.tensor([False, True])).squeeze(-1).tolist()
    [[0.0, 0.0], [0.0, inf]]
    """
    return torch.where((node_mask.unsqueeze(-1) & node_mask.unsqueeze(-2)).unsqueeze(-1), edges, 0)
