"""Relational Transformer: attention whose queries, keys and values are conditioned on edge vectors."""

import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .nn import (
        AttentionOutput,
        LayerOptions,
        RelationalAttention,
        RelationalTransformer,
        RelationalTransformerLayer,
        RelationalTransformerOutput,
        causal_mask,
        relational_attention,
    )

__version__ = "0.1.0"

IMPORTED = time.monotonic()
"""When a process imported this package, before anything that takes long."""

__all__ = [
    "AttentionOutput",
    "LayerOptions",
    "RelationalAttention",
    "RelationalTransformer",
    "RelationalTransformerLayer",
    "RelationalTransformerOutput",
    "__version__",
    "causal_mask",
    "relational_attention",
]


def __getattr__(name: str) -> Any:
    """Import the layers on first use: the data in `relational_transformer.clrs` needs no torch."""
    if name in __all__:
        return getattr(import_module(".nn", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
