"""Fused versions of `relational_attention` and `edge_update`, used where `enabled` says so."""

from torch import Tensor


def enabled(edges: Tensor) -> bool:
    """Whether the fused kernels take over for these edges."""
    return False


def relational_attention(*arguments: Tensor, **options: object) -> Tensor:
    raise NotImplementedError


def edge_update(*arguments: Tensor, **options: object) -> Tensor:
    raise NotImplementedError
