"""The layers and graphs for which there are whole-layer kernels."""

from typing import Any

import torch
from torch import Tensor

from relational_transformer.nn.kernels.dispatch import current_mode, is_exporting
from relational_transformer.nn.options import PUBLISHED
from relational_transformer.nn.plain import is_plain, is_plain_inside

from .launching import has_emulator
from .parameters import CHANNELS, EDGE_HIDDEN, HEAD_SIZE, HEADS, MESSAGE_HIDDEN, NODE_HIDDEN

MOST_NODES = 20
"""A graph's edges, 400 vectors of 192 numbers, fill the shared memory of a multiprocessor."""

LARGE_SHARED_MEMORY = (9, 10)
"""Generations of devices (the first number of the compute capability) whose blocks may have 227 KB of it."""

SIZES = {
    "node_size": CHANNELS,
    "edge_size": CHANNELS,
    "num_heads": HEADS,
    "head_size": HEAD_SIZE,
    "node_hidden_size": NODE_HIDDEN,
    "edge_hidden_sizes": (MESSAGE_HIDDEN, EDGE_HIDDEN),
    "dropout": 0.0,
    "global_size": 0,
    "options": PUBLISHED,
}


def is_one_kernel(layer: Any, nodes: Tensor, edges: Tensor) -> bool:
    """Whether one kernel may replace calls of a `RelationalTransformerLayer` on these tensors, without masks. That
    holds also for a subclass without a `forward` of its own."""
    return is_plain(layer) and fits_one_kernel(layer, nodes, edges)


def fits_one_kernel(layer: Any, nodes: Tensor, edges: Tensor) -> bool:
    """`is_one_kernel` for the layer's own `forward`, called by any class."""
    fits = edges.dtype == torch.bfloat16 and _has_sizes(layer) and is_plain_inside(layer)
    return fits and _are_for_kernels(nodes)


def _has_sizes(layer: Any) -> bool:
    return all(getattr(layer, name) == size for name, size in SIZES.items())


def _are_for_kernels(nodes: Tensor) -> bool:
    if current_mode() is False or nodes.dtype != torch.bfloat16:
        return False
    if torch.is_autocast_enabled(nodes.device.type) or is_exporting():
        return False
    # The number of nodes last: reading it in other cases would specialise exports and compiled code to one number.
    return _has_device(nodes) and nodes.shape[-2] <= MOST_NODES


def _has_device(tensor: Tensor) -> bool:
    if not tensor.is_cuda:
        return has_emulator()
    return has_kernels(tensor.device)


def has_kernels(device: torch.device) -> bool:
    """Whether a device is of a generation for which the kernels are written.

    >>> has_kernels(torch.device("cpu"))
    False
    """
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] in LARGE_SHARED_MEMORY
