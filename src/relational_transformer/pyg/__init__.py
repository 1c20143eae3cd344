"""The relational transformer with PyTorch Geometric's conventions: node lists, edge lists, batches of graphs.

The layer needs torch alone; `pip install '.[pyg]'` in a checkout adds PyG itself, for its loaders and data sets.
"""

from .conv import RelationalTransformerConv
from .packing import Packing
from .sparse_attention import SparseAttentionOutput, sparse_relational_attention
from .sparse_edge_update import mean_of_reverse_edges

__all__ = [
    "Packing",
    "RelationalTransformerConv",
    "SparseAttentionOutput",
    "mean_of_reverse_edges",
    "sparse_relational_attention",
]
