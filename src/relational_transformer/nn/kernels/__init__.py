"""Fused GPU versions of functions of `nn`. Other code uses only the names that are exported here; the modules are
internal.

- `relational_attention` and `edge_update`, under the names of the functions that they replace, where `enabled` says so;
- `pointer_scores`, where `scores_pointers` does;
- `whole_layer`, a layer as one kernel, where `is_one_kernel` does; `KernelLayers`, all layers of a network as such.

The first three are written in Triton, which is imported when one of them is first asked for. The layer is CUDA C++,
compiled at its first call. One launch serves all seeds of a fleet; nothing of the edges' size is written but the edges
themselves. `use_kernels` turns kernels on and off.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from relational_transformer.nn.kernels.dispatch import current_mode, enabled, scores_pointers, use_kernels
from relational_transformer.nn.kernels.whole_layer import fits_one_kernel, has_kernels, is_one_kernel, whole_layer
from relational_transformer.nn.kernels.whole_layer.layers import ForInference, KernelLayers, LaidOut, Orders

if TYPE_CHECKING:
    from relational_transformer.nn.kernels.attention import relational_attention
    from relational_transformer.nn.kernels.edges import edge_update
    from relational_transformer.nn.kernels.pointers import pointer_scores

__all__ = [
    "ForInference",
    "KernelLayers",
    "LaidOut",
    "Orders",
    "current_mode",
    "edge_update",
    "enabled",
    "fits_one_kernel",
    "has_kernels",
    "is_one_kernel",
    "pointer_scores",
    "relational_attention",
    "scores_pointers",
    "use_kernels",
    "whole_layer",
]

_IN_TRITON = {"relational_attention": "attention", "edge_update": "edges", "pointer_scores": "pointers"}


def __getattr__(name: str) -> Any:
    """Import an operation written in Triton when it is first used: most models never call one."""
    if name not in _IN_TRITON:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    operation = getattr(import_module(f".{_IN_TRITON[name]}", __name__), name)
    globals()[name] = operation
    return operation
