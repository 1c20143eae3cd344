"""What the kernels of layers without edges keep: for the backward kernel, and for products."""

import torch

from ..kept import NORMAL_ROW
from ..parameters import CHANNELS, HEADS, NODE_HIDDEN
from .parameters import NUM_SUMS

FORWARD = ("kept_nodes", "attention", "middle_nodes", "messages", "node_qkv", "node_normals", "node_hidden")
"""What the forward kernel keeps."""

READ = ("attention", "node_qkv", "node_normals", "node_hidden")
"""What the backward kernel reads of that."""

BACKWARD = ("qkv_gradient", "output_gradient", "node_out_gradient", "node_in_gradient")
"""Rows that the backward kernel leaves for products."""


def kept_shapes(nodes: int) -> dict[str, tuple[int, ...]]:
    """What the kernels keep of one graph, layer and step, by name."""
    return {
        **dict.fromkeys((*FORWARD, *BACKWARD), (nodes, CHANNELS)),
        "attention": (HEADS, nodes, nodes),
        "node_normals": (nodes, NORMAL_ROW),
        **dict.fromkeys(("node_qkv", "qkv_gradient"), (nodes, 3 * CHANNELS)),
        **dict.fromkeys(("node_hidden", "node_in_gradient"), (nodes, NODE_HIDDEN)),
    }


def kept_bytes(layers: int, num_steps: int, seeds: int, graphs: int, nodes: int) -> int:
    """What a trajectory keeps for its backward pass."""
    numbers = sum(torch.Size(shape).numel() for shape in kept_shapes(nodes).values())
    return layers * seeds * graphs * (num_steps * 2 * numbers + 4 * NUM_SUMS)
