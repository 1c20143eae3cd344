"""Lobster graphs on the device, and batches of them as the models read them."""

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from .graphs import Lobsters

NODE_INPUTS = 3
"""One-hot: source, target, or another node."""
EDGE_INPUTS = 1


class GraphBatch(NamedTuple):
    """Graphs padded to N nodes: nodes [..., N, 3], one-hot source / target / other; edges [..., N, N, 1], the length of
    the edge from i to j, 0 where there is none; node_mask [..., N], True = present."""

    nodes: Tensor
    edges: Tensor
    node_mask: Tensor


def neighbours(graphs: GraphBatch) -> Tensor:
    """Whom each node has an edge to, and itself, bool [..., N, N]. Absent nodes have themselves alone."""
    num_nodes = graphs.edges.shape[-2]
    return (graphs.edges.squeeze(-1) != 0) | torch.eye(num_nodes, dtype=torch.bool, device=graphs.edges.device)


@dataclass(frozen=True)
class Split:
    """All graphs of a split as trees (see `Lobsters`). Dense matrices are made only for the graphs of a batch."""

    parents: Tensor
    up: Tensor
    down: Tensor
    num_nodes: Tensor
    sources: Tensor
    targets: Tensor
    distances: Tensor
    host_num_nodes: np.ndarray

    def __len__(self) -> int:
        return len(self.host_num_nodes)

    @property
    def device(self) -> torch.device:
        return self.parents.device

    def thinned(self, count: int) -> "Split":
        """At most `count` of the graphs, spread evenly over the split."""
        chosen = slice(None, None, -(-len(self) // count))
        return Split(**{one.name: getattr(self, one.name)[chosen] for one in fields(self)})

    def gather(self, index: Tensor, num_nodes: int) -> tuple[GraphBatch, Tensor]:
        """The graphs at `index` [...], padded or cut to `num_nodes` N, and their distances [...]."""
        node = torch.arange(num_nodes, device=self.device)
        parents, up, down = (one[index, :num_nodes].unsqueeze(-1) for one in (self.parents, self.up, self.down))
        missing = num_nodes - parents.shape[-2]
        if missing > 0:
            parents = F.pad(parents, (0, 0, 0, missing), value=-1)
            up, down = (F.pad(weight, (0, 0, 0, missing)) for weight in (up, down))
        is_parent = parents == node  # [..., N, N]: j is the parent of i
        edges = is_parent * up + (is_parent * down).transpose(-1, -2)
        is_source, is_target = (one[index].unsqueeze(-1) == node for one in (self.sources, self.targets))
        nodes = torch.stack([is_source, is_target, ~(is_source | is_target)], dim=-1).to(edges.dtype)
        node_mask = node < self.num_nodes[index].unsqueeze(-1)
        return GraphBatch(nodes, edges.unsqueeze(-1), node_mask), self.distances[index]


def load_split(lobsters: Lobsters, device: torch.device) -> Split:
    """Move graphs to the device."""

    def move(array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(device)

    return Split(
        parents=move(lobsters.parents),
        up=move(lobsters.up),
        down=move(lobsters.down),
        num_nodes=move(lobsters.num_nodes),
        sources=move(lobsters.sources),
        targets=move(lobsters.targets),
        distances=move(lobsters.distances),
        host_num_nodes=lobsters.num_nodes,
    )
