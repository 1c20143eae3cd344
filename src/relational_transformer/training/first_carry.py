"""The carry before the first step."""

from torch import Tensor
from torch.utils._pytree import tree_map_only

from relational_transformer.reasoning.network import Carry, Network


def like_later_ones(network: Network, carry: Carry) -> Carry:
    """The first carry with gradients where later ones have them, so that to the compiler all steps are alike."""
    marked = tree_map_only(Tensor, lambda leaf: leaf.contiguous().requires_grad_(), carry._replace(hints={}))
    learnt = {group.key for group in network.hints if network.learns_through(group)}
    hints = {key: hint.contiguous().requires_grad_(key in learnt) for key, hint in carry.hints.items()}
    return marked._replace(hints=hints)
