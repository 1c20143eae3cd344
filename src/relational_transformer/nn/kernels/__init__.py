"""Fused versions of `relational_attention` and `edge_update`, used where `enabled` says so, of the whole layer, used
where `fits_one_kernel` does, and of scores of pointers (`scores_pointers`).

One launch serves all seeds of a fleet; nothing of the edges' size is written but the edges themselves. Triton is
imported at the first call, and the whole layer compiled at its first. `RelationalLayers` and `NodeLayers` run a model's
layers over the steps of a trajectory.

These names are all that other folders import: the files in this one are its own.
"""

from relational_transformer.nn.kernels.attention import relational_attention
from relational_transformer.nn.kernels.dispatch import (
    are_faster,
    available,
    current_mode,
    enabled,
    scores_pointers,
    use_kernels,
)
from relational_transformer.nn.kernels.edge_update import edge_update
from relational_transformer.nn.kernels.pointer_scores import pointer_scores
from relational_transformer.nn.kernels.whole_layer import (
    KernelLayers,
    LaidOut,
    NodeLayers,
    RelationalLayers,
    fits_one_kernel,
    is_one_kernel,
    whole_layer,
)

__all__ = [
    "KernelLayers",
    "LaidOut",
    "NodeLayers",
    "RelationalLayers",
    "are_faster",
    "available",
    "current_mode",
    "edge_update",
    "enabled",
    "fits_one_kernel",
    "is_one_kernel",
    "pointer_scores",
    "relational_attention",
    "scores_pointers",
    "use_kernels",
    "whole_layer",
]
