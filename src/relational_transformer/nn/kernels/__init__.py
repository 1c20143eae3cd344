"""Fused versions of `relational_attention` and `edge_update`, used where `enabled` says so.

One launch serves all seeds of a fleet; nothing of the edges' size is written but the edges themselves. Triton is
imported at the first call.
"""

from relational_transformer.nn.kernels.attention import relational_attention
from relational_transformer.nn.kernels.dispatch import available, enabled, use_kernels
from relational_transformer.nn.kernels.edge_update import edge_update

__all__ = ["available", "edge_update", "enabled", "relational_attention", "use_kernels"]
