"""Attention weights: masks, biases and scaling of the scores, and their softmax."""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class ScoreRule(NamedTuple):
    """The mask, bool [..., Nq, Nk], True where i may attend to j; the bias, [..., H, Nq, Nk]; and the size of graph
    at which scores are the published ones, None for all sizes."""

    mask: Tensor | None
    bias: Tensor | None
    log_scaling_size: int | None

    @property
    def is_published(self) -> bool:
        """Whether the scores are those of the paper, with or without a mask."""
        return self.bias is None and self.log_scaling_size is None


def attention_weights(query: Tensor, key: Tensor, edge_query_key: Tensor, num_heads: int, rule: ScoreRule) -> Tensor:
    """Attention weights [..., Nq, Nk, H], of nodes' and edges' queries and keys, the latter [..., Nq, Nk, 2·H·D]."""
    edge_query, edge_key = edge_query_key.chunk(2, dim=-1)
    products = (query.unsqueeze(-2) + edge_query) * (key.unsqueeze(-3) + edge_key)  # [..., Nq, Nk, H·D]
    by_head = products.unflatten(-1, (num_heads, -1))
    # Scores and softmax in float32 at least, whatever autocast chose for the products.
    precise = torch.promote_types(products.dtype, torch.float32)
    scores = by_head.sum(-1, dtype=precise) * by_head.shape[-1] ** -0.5  # [..., Nq, Nk, H]
    attends = None if rule.mask is None else rule.mask.unsqueeze(-1)
    bias = None if rule.bias is None else rule.bias.movedim(-3, -1)  # [..., Nq, Nk, H]
    if bias is not None:
        attends = bias != -torch.inf if attends is None else attends & (bias != -torch.inf)
    if rule.log_scaling_size is not None:
        scores = scores * _log_scale(scores, attends, rule.log_scaling_size)
    if bias is not None:
        scores = scores + bias.to(precise)
    if attends is not None:
        scores = scores.masked_fill(~attends, torch.finfo(precise).min)
    weights = scores.softmax(dim=-2)
    if attends is not None:
        weights = weights.masked_fill(~attends, 0.0)  # a row without any neighbour: zeros
    return weights.to(products.dtype)


def _log_scale(scores: Tensor, attends: Tensor | None, size: int) -> Tensor:
    """log n / log size, where n is the number of nodes that each node attends to; broadcasts to [..., Nq, 1, H]."""
    ones = scores.new_ones(scores.shape[-2], 1)  # summed, as an exporter leaves their number open
    heard = ones if attends is None else ones * attends
    return heard.sum(-2, keepdim=True).clamp_min(1).log() / math.log(size)
