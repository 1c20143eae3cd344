"""Fused GPU versions of functions of `nn`. Other code uses only the names that are exported here; the modules are
internal.

- `relational_attention` and `edge_update`, under the names of the functions that they replace, where `enabled` says so;
- `pointer_scores`, where `scores_pointers` does;
- `relational_layer`, a layer as one kernel, where `is_one_kernel` does; `KernelLayers`, all layers of a network as
  such.

Each is imported when it is first asked for, because most models never call one. The first three are written in Triton;
the first two are also there in CUDA C++ (`rows/`), on request. The layer is CUDA C++, which is compiled at its first
call. One launch serves all seeds of a fleet; nothing of the edges' size is written but the edges themselves.
`use_kernels` turns kernels on and off.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from relational_transformer.nn.kernels.dispatch import current_mode, enabled, scores_pointers, use_kernels
from relational_transformer.nn.kernels.whole_layer import fits_one_kernel, has_kernels, is_one_kernel

if TYPE_CHECKING:
    from relational_transformer.nn.kernels.attention import relational_attention
    from relational_transformer.nn.kernels.edges import edge_update
    from relational_transformer.nn.kernels.pointers import pointer_scores
    from relational_transformer.nn.kernels.whole_layer.layers import ForInference, KernelLayers, LaidOut, Orders
    from relational_transformer.nn.kernels.whole_layer.operator import relational_layer

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
    "relational_layer",
    "scores_pointers",
    "use_kernels",
]

_IMPORTED_LATER = {
    "relational_attention": "attention",
    "edge_update": "edges",
    "pointer_scores": "pointers",
    "relational_layer": "whole_layer.operator",
    **dict.fromkeys(("ForInference", "KernelLayers", "LaidOut", "Orders"), "whole_layer.layers"),
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used."""
    if name not in _IMPORTED_LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_IMPORTED_LATER[name]}", __name__), name)
    globals()[name] = found
    return found
