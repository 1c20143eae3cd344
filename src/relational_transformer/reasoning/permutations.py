r"""Permutations, decoded by Sinkhorn's iterations (Mena et al., 2018).

Logits over a temperature, nothing on the diagonal, are normalised over rows and columns by turns:

$$X = l / \tau - 10^6 I \qquad X \leftarrow X - \log \textstyle\sum_j e^{X_{ij}} \qquad
X \leftarrow X - \log \textstyle\sum_i e^{X_{ij}}$$

After 10 iterations X is the logarithm of a matrix that training compares with a permutation. A prediction takes 50
more. The iterations are made once, on the logits of the last step.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from relational_transformer.nn.checks import shown

from .features import FeatureGroup

TEMPERATURE = 0.1
ITERATIONS = 10
MORE_ITERATIONS = 50
FORBIDDEN = -1e6
ABSENT = -1e9


def log_permutation(logits: Tensor, node_mask: Tensor | None = None) -> Tensor:
    """The logarithm of a nearly doubly stochastic matrix, for a loss, in float32 or better.

    Shapes: logits [..., N, N, F] from node i to node j -> the same; node_mask bool [..., N].
    """
    return sinkhorn(logits, ITERATIONS, node_mask)


def soft_permutation(logits: Tensor, node_mask: Tensor | None = None, iterations: int = MORE_ITERATIONS) -> Tensor:
    """A doubly stochastic matrix, for a prediction. Shapes as in `log_permutation`."""
    return sinkhorn(log_permutation(logits, node_mask), iterations, node_mask).exp()


def decide_permutation(logits: Tensor, node_mask: Tensor | None = None) -> Tensor:
    """The node that each node points to, [..., N, N, F] -> [..., N, F]."""
    return soft_permutation(logits, node_mask).argmax(-2)


def sinkhorn(logits: Tensor, iterations: int, node_mask: Tensor | None = None) -> Tensor:
    """Run `iterations` iterations on logits [..., N, N, F]. Absent nodes, and no others, point to themselves."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / TEMPERATURE
    own = torch.eye(logits.shape[-2], dtype=torch.bool, device=logits.device).unsqueeze(-1)
    logits = torch.where(own, logits + FORBIDDEN, logits)
    if node_mask is not None:
        pairs = (node_mask.unsqueeze(-1) & node_mask.unsqueeze(-2)).unsqueeze(-1)
        logits = torch.where(pairs, logits, torch.where(own, 0.0, ABSENT))
    for _ in range(iterations):
        logits = logits.log_softmax(-2).log_softmax(-3)
    return logits


def gumbel(uniform: Tensor) -> Tensor:
    r"""Gumbel noise $-\log(-\log u)$ of numbers u that are uniform in [0, 1), for `Batch.noise`.

    >>> uniform = torch.rand(2, 5, 5, 1, generator=torch.Generator().manual_seed(0))
    >>> gumbel(uniform).shape, round(gumbel(torch.tensor(0.5)).item(), 4)
    (torch.Size([2, 5, 5, 1]), 0.3665)
    """
    if not isinstance(uniform, Tensor) or not uniform.is_floating_point():
        raise ValueError(f"uniform must be a tensor of floating-point numbers in [0, 1), got {shown(uniform)}")
    return -torch.log(-torch.log(uniform + 1e-12) + 1e-12)


def first_nodes(groups: Iterable[FeatureGroup]) -> dict[str, str]:
    """By the key of a group of permutations, the key of the group that marks their first nodes, as `pred_mask` does for
    `pred`."""
    groups = tuple(groups)
    masks = {group.names: group.key for group in groups if not group.is_permutation}
    wanted = {group.key: tuple(f"{name}_mask" for name in group.names) for group in groups if group.is_permutation}
    return {key: masks[names] for key, names in wanted.items() if names in masks}


def point_to_themselves(pointers: Tensor, is_first: Tensor) -> Tensor:
    """Pointers [..., N, F] of an order in which the first node (bool [..., N, F]) points to itself, as it has no
    predecessor."""
    nodes = torch.arange(pointers.shape[-2], device=pointers.device).unsqueeze(-1)
    return torch.where(is_first, nodes, pointers)
