"""A whole relational layer as one kernel: one thread block a graph, the edges in shared memory from begin to end.

CUDA C++, for small graphs at the paper's sizes, where the number of launches and not arithmetic takes the time.
"""

from .fitting import fits_one_kernel, has_kernels, is_one_kernel

__all__ = ["fits_one_kernel", "has_kernels", "is_one_kernel"]
