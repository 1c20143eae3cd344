"""Attention and edge update by rows of a graph, forward and backward, in CUDA C++: each kernel reads every edge once.

They take the places of Triton kernels in the same operators, and leave what those leave. A kernel is compiled for a
number of channels; graphs may have any number of nodes.
"""

from .fitting import fits_attention_backward, takes_attention, takes_edge_update

__all__ = ["fits_attention_backward", "takes_attention", "takes_edge_update"]
