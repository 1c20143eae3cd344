"""Structures that the kernels of layers without edges take as arguments; addresses that are not given are null."""

import ctypes


def _structure(addresses: tuple[str, ...], numbers: tuple[str, ...]) -> list[tuple[str, type]]:
    return [(name, ctypes.c_void_p) for name in addresses] + [(name, ctypes.c_int) for name in numbers]


class ForwardArguments(ctypes.Structure):
    """`NodeLayers` of forward.cuh."""

    _fields_ = _structure(
        (
            *("matrices", "vectors", "nodes", "new_nodes", "kept_nodes"),
            *("attention", "middle_nodes", "messages", "node_qkv", "node_normals", "node_hidden"),
        ),
        ("layers", "kept_graphs"),
    )


class BackwardArguments(ctypes.Structure):
    """`backward::NodeLayers` of backward.cuh."""

    _fields_ = _structure(
        (
            *("attention", "node_qkv", "node_normals", "node_hidden"),
            *("new_nodes_gradient", "weights", "vectors", "nodes_gradient"),
            *("qkv_gradient", "output_gradient", "node_out_gradient", "node_in_gradient", "sums"),
        ),
        ("layers", "kept_graphs", "first"),
    )
