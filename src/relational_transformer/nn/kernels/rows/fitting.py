"""The sizes for which there are kernels of rows, and where they are taken."""

import torch
from torch import Tensor

from relational_transformer.nn.kernels.dispatch import current_mode
from relational_transformer.nn.kernels.whole_layer.fitting import has_kernels
from relational_transformer.nn.kernels.whole_layer.launching import ALL_SHARED_BYTES, has_emulator
from relational_transformer.nn.kernels.whole_layer.parameters import EDGE_HIDDEN, HEAD_SIZE, MESSAGE_HIDDEN

from .chunks import backward_shared_bytes, shared_bytes

CHANNELS = (128, 192)
"""Of edge vectors and of all heads together. A warp is a head, and keeps weights for all channels of an edge in its
registers."""

FEWEST_KEYS = 16
EPSILON = 1e-5
MOST_EDGES = 2**31
"""Edges are numbered in 32 bits."""


def takes_attention(query: Tensor, edges: Tensor, num_heads: int) -> bool:
    """Whether attention on these edges [..., NQ, NK, E], with queries [..., NQ, H * D], is for the kernel of rows.

    It is on request alone (`RT_KERNELS=on`): no card has measured it yet.
    """
    channels, keys = edges.shape[-1], edges.shape[-2]
    sizes = channels in CHANNELS and query.shape[-1] == channels and num_heads * HEAD_SIZE == channels
    return _is_asked_for(query, edges) and sizes and shared_bytes(channels, keys, rows=1) <= ALL_SHARED_BYTES


def fits_attention_backward(edges: Tensor) -> bool:
    """Whether the backward kernel can follow the forward one: 16 edges may be of two rows, no more."""
    channels, keys = edges.shape[-1], edges.shape[-2]
    return keys >= FEWEST_KEYS and backward_shared_bytes(channels, keys, rows=1) <= ALL_SHARED_BYTES


def takes_edge_update(edges: Tensor, receivers: Tensor, senders: Tensor, feed_in_bias: Tensor, eps: float) -> bool:
    """Whether the update of these edges [..., N, N, E] is; senders and receivers are [..., N, M]."""
    sizes = edges.shape[-1] in CHANNELS and receivers.shape[-1] == MESSAGE_HIDDEN and eps == EPSILON
    fits = sizes and feed_in_bias.shape[-1] == EDGE_HIDDEN and edges.shape[:-1].numel() < MOST_EDGES
    return _is_asked_for(edges, receivers, senders) and fits


def _is_asked_for(*tensors: Tensor) -> bool:
    if current_mode() is not True or any(tensor.dtype != torch.bfloat16 for tensor in tensors):
        return False
    device = tensors[0].device
    return has_kernels(device) if device.type == "cuda" else has_emulator()
