"""Structures that the kernels take as arguments."""

import ctypes

from torch import Tensor


def address(tensor: Tensor | None) -> ctypes.c_void_p:
    """Where a tensor lies; null where there is none."""
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


class LayerWeights(ctypes.Structure):
    """`LayerWeights` of the forward kernel: addresses of [S, packed], matrices in bfloat16, vectors in float32."""

    _fields_ = [("matrices", ctypes.c_void_p), ("vectors", ctypes.c_void_p)]


class SeedStrides(ctypes.Structure):
    """`SeedStrides` of the forward kernel: graphs from one seed to the next in what is read, made and kept."""

    _fields_ = [("read", ctypes.c_int), ("made", ctypes.c_int), ("kept", ctypes.c_int)]


class BackwardArguments(ctypes.Structure):
    """`backward::Arguments`; addresses that are not given are null."""

    _fields_ = [
        (name, ctypes.c_void_p)
        for name in (
            *("edges", "attention", "edge_normals", "edge_hidden", "node_qkv", "node_normals", "node_hidden"),
            *("new_nodes_gradient", "new_edges_gradient", "weights", "vectors"),
            *("nodes_gradient", "edges_gradient", "qkv_gradient", "query_key_gradient"),
            *("message_gradient", "output_gradient", "node_out_gradient"),
            *("node_in_gradient", "send_receive_gradient", "sums"),
        )
    ] + [(name, ctypes.c_int) for name in ("kept_graphs", "first", "last")]
