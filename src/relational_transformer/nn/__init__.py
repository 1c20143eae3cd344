"""Relational attention and the Relational Transformer as PyTorch modules. They need only torch."""

from .attention import AttentionOutput, RelationalAttention, causal_mask, relational_attention
from .concat_linear import ConcatLinear
from .edge_update import EdgeUpdate, edge_update
from .layer import LayerOutput, RelationalTransformerLayer
from .options import LayerOptions
from .recording import record_attention
from .saving.pretrained import Pretrained
from .transformer import RelationalTransformer, RelationalTransformerOutput

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
