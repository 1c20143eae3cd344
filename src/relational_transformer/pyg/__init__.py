"""The relational transformer with PyTorch Geometric's conventions: node lists, edge lists, batches of graphs.

The layer needs torch alone; `pip install '.[pyg]'` in a checkout adds PyG itself, for its containers, loaders and data
sets.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .model import RelationalGraphModel
from .packing import Packing
from .sampler import SizeBucketSampler
from .sparse_attention import SparseAttentionOutput, sparse_relational_attention
from .sparse_edge_update import mean_of_reverse_edges

if TYPE_CHECKING:
    from .conv import RelationalTransformerConv
    from .encodings import AddPairEncodings

__all__ = [
    "AddPairEncodings",
    "Packing",
    "RelationalGraphModel",
    "RelationalTransformerConv",
    "SizeBucketSampler",
    "SparseAttentionOutput",
    "mean_of_reverse_edges",
    "sparse_relational_attention",
]
_NEED_PYG = {"AddPairEncodings": ".encodings", "RelationalTransformerConv": ".conv"}
"""Names whose modules import PyG, which takes seconds, and where they are."""


def __getattr__(name: str) -> Any:
    if name in _NEED_PYG:
        try:
            return getattr(import_module(_NEED_PYG[name], __name__), name)
        except ModuleNotFoundError as error:
            message = f"{name} needs PyTorch Geometric: pip install '.[pyg]' in a checkout"
            raise ModuleNotFoundError(message, name=error.name) from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
