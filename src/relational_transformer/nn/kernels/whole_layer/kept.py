"""What a layer's kernels keep: for the backward kernel, and for the products that are the gradients of weights."""

import torch

from .parameters import CHANNELS, HEAD_SIZE, HEADS, NODE_HIDDEN, num_sums

HIDDEN_ROW = 32
"""`kHiddenRow` of tile.cuh."""

NORMAL_ROW = 2 * CHANNELS + 8
"""`kNormalRow` of tile.cuh."""

FORWARD = (
    *("attention", "middle_nodes", "messages", "context"),
    *("edge_normals", "edge_hidden", "node_qkv", "node_normals", "node_hidden"),
)
"""What the forward kernel keeps, in the order of its arguments."""

READ = ("attention", "edge_normals", "edge_hidden", "node_qkv", "node_normals", "node_hidden")
"""What the backward kernel reads of that."""

BACKWARD = (
    *("qkv_gradient", "query_key_gradient", "message_gradient", "output_gradient", "node_out_gradient"),
    *("node_in_gradient", "send_receive_gradient"),
)
"""Rows that the backward kernel leaves for products."""

OF_EDGE_UPDATE = ("edge_normals", "edge_hidden", "send_receive_gradient")
"""What is there only in layers with an edge update."""

BY_HEAD = ("context", "message_gradient")
"""Rows of which a head's lie together, [S, H, ..., N, size]; all others are [S, ..., *shape]."""


def kept_shapes(nodes: int, update_edges: bool) -> dict[str, tuple[int, ...]]:
    """What a layer's kernels keep of one graph at one step, by name."""
    node, hidden = (nodes, CHANNELS), (nodes, NODE_HIDDEN)
    shapes = {
        **dict.fromkeys((*FORWARD, *BACKWARD), node),
        **dict.fromkeys(("node_in_gradient", "node_hidden", "send_receive_gradient"), hidden),
        "attention": (HEADS, nodes, nodes),
        "edge_normals": (2, nodes, nodes, CHANNELS),
        "edge_hidden": (nodes, nodes, HIDDEN_ROW),
        "node_normals": (nodes, NORMAL_ROW),
        "context": (HEADS, nodes, CHANNELS),
        "message_gradient": (HEADS, nodes, HEAD_SIZE),
        **dict.fromkeys(("node_qkv", "qkv_gradient"), (nodes, 3 * CHANNELS)),
        "query_key_gradient": (nodes, nodes, 2 * CHANNELS),
    }
    return {name: shape for name, shape in shapes.items() if update_edges or name not in OF_EDGE_UPDATE}


def kept_bytes(layers: int, num_steps: int, seeds: int, graphs: int, nodes: int, *, update_edges: bool) -> int:
    """The bytes that a trajectory keeps for its backward pass: rows, inputs of layers and sums. Without edge updates
    the edges are kept once; with them, also the nodes of the last layer."""
    numbers = sum(torch.Size(shape).numel() for shape in kept_shapes(nodes, update_edges).values())
    read = CHANNELS * ((layers + 2) * nodes + layers * nodes**2 if update_edges else layers * nodes + nodes**2)
    return seeds * graphs * (num_steps * 2 * (layers * numbers + read) + layers * 4 * num_sums(update_edges))
