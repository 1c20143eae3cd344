"""Relational attention and the Relational Transformer as PyTorch modules. They need only torch."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .attention import AttentionOutput, RelationalAttention, causal_mask, relational_attention
from .concat_linear import ConcatLinear
from .edge_update import EdgeUpdate, edge_update
from .layer import LayerOutput, RelationalTransformerLayer
from .options import LayerOptions
from .saving.pretrained import Pretrained
from .transformer import RelationalTransformer, RelationalTransformerOutput

if TYPE_CHECKING:
    from .recording import record_attention

__all__ = [
    "AttentionOutput",
    "ConcatLinear",
    "EdgeUpdate",
    "LayerOptions",
    "LayerOutput",
    "Pretrained",
    "RelationalAttention",
    "RelationalTransformer",
    "RelationalTransformerLayer",
    "RelationalTransformerOutput",
    "causal_mask",
    "edge_update",
    "record_attention",
    "relational_attention",
]


def __getattr__(name: str) -> Any:
    """Import `record_attention` when it is first used: training does not need it."""
    if name == "record_attention":
        return import_module(".recording", __name__).record_attention
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
