"""What goes on inside a network while it runs an example: predictions, attention, norms of edge vectors."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from relational_transformer.analysis.rollout import Predictions, predict_steps
from relational_transformer.clrs.trajectories import Trajectories
from relational_transformer.nn import RelationalAttention, record_attention
from relational_transformer.processors import GraphState
from relational_transformer.reasoning.network import Network


class Inside(NamedTuple):
    """What was seen of the one example.

    Attributes:
        predictions: hints at every step, and outputs.
        attention: bytes [steps, layers, heads, N, N], 255 being a weight of 1; None of a model without relational
            attention.
        edge_norms: bytes [steps, N, N], 0 being the least and 255 the largest of `norm_range`; None of a model
            that has no edge vectors.
    """

    predictions: Predictions
    attention: np.ndarray | None
    edge_norms: np.ndarray | None
    norm_range: tuple[float, float]


def look_inside(network: Network, data: Trajectories, layers: tuple[int, ...] | None = None) -> Inside:
    """Run a network on one example, on its own hints, and keep the attention of these layers (all, where None)."""
    has_attention = any(isinstance(module, RelationalAttention) for module in network.modules())
    recording = record_attention(network) if has_attention else nullcontext({})
    with recording as recorded, _record_edge_norms(network.processor) as norms:
        predictions = predict_steps(network, data)
    weights = list(recorded.values())
    if layers is not None:
        weights = [weights[layer] for layer in layers]
    attention = None
    if weights:
        attention = _as_bytes(torch.stack([torch.stack([call[0] for call in calls]) for calls in weights], dim=1))
    if not norms:
        return Inside(predictions, attention, None, (0.0, 0.0))
    edge_norms = torch.stack(norms)
    low, high = edge_norms.min().item(), edge_norms.max().item()
    return Inside(predictions, attention, _as_bytes((edge_norms - low) / ((high - low) or 1.0)), (low, high))


@contextmanager
def _record_edge_norms(processor: nn.Module) -> Iterator[list[Tensor]]:
    """The length of every edge vector of the first example after every step, [N, N]."""
    norms: list[Tensor] = []

    def keep(_: nn.Module, __: Any, state: GraphState) -> None:
        if getattr(processor, "returns_edges", False) and state.edges is not None:
            norms.append(state.edges[0].detach().float().norm(dim=-1))

    hook = processor.register_forward_hook(keep)
    try:
        yield norms
    finally:
        hook.remove()


def _as_bytes(shares: Tensor) -> np.ndarray:
    """Numbers from 0 to 1 as bytes."""
    return (shares.float().nan_to_num() * 255).round().clamp(0, 255).to(torch.uint8).cpu().numpy()
