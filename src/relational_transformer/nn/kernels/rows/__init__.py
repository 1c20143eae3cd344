"""Attention and edge update by rows of a graph, forward, in CUDA C++: each reads every edge once.

They take the places of the Triton kernels in the same operators, and leave what those leave, so that the backward pass
is the same. A kernel is compiled for a number of channels; graphs may have any number of nodes.
"""

from .fitting import takes_attention, takes_edge_update

__all__ = ["takes_attention", "takes_edge_update"]
