"""A whole relational layer as one kernel: one thread block a graph, the edges in shared memory from begin to end.

CUDA C++, for small graphs at the paper's sizes, where the number of launches and not arithmetic takes the time.
"""

from .fitting import are_one_kernel, fits_one_kernel, is_one_kernel
from .layers import KernelLayers, LaidOut, NodeLayers, RelationalLayers
from .operator import whole_layer

__all__ = [
    "KernelLayers",
    "LaidOut",
    "NodeLayers",
    "RelationalLayers",
    "are_one_kernel",
    "fits_one_kernel",
    "is_one_kernel",
    "whole_layer",
]
