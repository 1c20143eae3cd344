"""Encodings of all pairs of nodes, which a model reads as edge vectors: distances, random walks, eigenvectors."""

import warnings
from typing import Any

import torch
from torch import Tensor

from relational_transformer.nn.checks import check_size_or_zero

from .checks import check_count, check_edge_index

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # PyG 2.8 calls torch.jit.script when it is imported
    from torch_geometric.data import Data
    from torch_geometric.transforms import AddLaplacianEigenvectorPE, BaseTransform

MOST_CHANNELS = 2**10
MOST_NODES = 2**16
"""Of a graph, whose pairs are a dense matrix."""


class AddPairEncodings(BaseTransform):
    r"""Adds `pair_attr` [n^2, channels] to a graph of n nodes: row $i n + j$ says how node j stands to node i.

    Args:
        shortest_paths: distances that are told apart: the length of the shortest path from j to i as one of 0, 1, ...,
            this number, or "longer, or none at all". As many channels and two more, of which one is 1; none if 0.
        random_walk: so many channels: the probability that a walk of 1, 2, ... steps from j ends in i.
        laplacian: so many channels: the products $u_{ik} u_{jk}$ of the first eigenvectors of PyG's
            `AddLaplacianEigenvectorPE`, which do not depend on an eigenvector's sign.

    >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> pair_attr = AddPairEncodings(shortest_paths=1, random_walk=1)(path).pair_attr
    >>> pair_attr.view(3, 3, -1)[0]  # node 0: itself, its neighbour (which walks to it every second time), and node 2
    tensor([[1.0000, 0.0000, 0.0000, 0.0000],
            [0.0000, 1.0000, 0.0000, 0.5000],
            [0.0000, 0.0000, 1.0000, 0.0000]])
    """

    def __init__(self, *, shortest_paths: int = 0, random_walk: int = 0, laplacian: int = 0) -> None:
        check_size_or_zero(shortest_paths=shortest_paths, random_walk=random_walk, laplacian=laplacian)
        self.shortest_paths = shortest_paths
        self.random_walk = random_walk
        self.laplacian = laplacian
        if not 0 < self.channels <= MOST_CHANNELS:
            raise ValueError(f"pairs must get between 1 and {MOST_CHANNELS} channels, got {self.channels}")

    @property
    def channels(self) -> int:
        """Of `pair_attr`: the `pair_dim` of a model."""
        return (self.shortest_paths + 2 if self.shortest_paths else 0) + self.random_walk + self.laplacian

    def forward(self, data: Any) -> Any:
        if getattr(data, "edge_index", None) is None or data.num_nodes is None:
            raise ValueError(f"data must be a graph with edge_index, got {type(data).__name__}")
        check_count("num_nodes", data.num_nodes, MOST_NODES)
        check_edge_index(data.edge_index, data.num_nodes, "the encodings", torch.empty(0))
        parts = []
        if self.shortest_paths:
            parts.append(shortest_paths(data.edge_index, data.num_nodes, self.shortest_paths))
        if self.random_walk:
            parts.append(random_walks(data.edge_index, data.num_nodes, self.random_walk))
        if self.laplacian:
            parts.append(laplacian_products(data.edge_index, data.num_nodes, self.laplacian))
        data.pair_attr = torch.cat(parts, dim=-1).flatten(0, 1)  # [n, n, channels] -> [n^2, channels]
        return data

    def __repr__(self) -> str:
        sizes = {"shortest_paths": self.shortest_paths, "random_walk": self.random_walk, "laplacian": self.laplacian}
        return f"AddPairEncodings({', '.join(f'{name}={size}' for name, size in sizes.items() if size)})"


def adjacency(edge_index: Tensor, num_nodes: int) -> Tensor:
    """1 at [i, j] where an edge leads from j to i, however many there are; [n, n]."""
    dense = torch.zeros(num_nodes, num_nodes)
    dense[edge_index[1], edge_index[0]] = 1.0
    return dense


def shortest_paths(edge_index: Tensor, num_nodes: int, longest: int) -> Tensor:
    """Distance from j to i as one of `longest` + 2 channels, [n, n, longest + 2].

    >>> shortest_paths(torch.tensor([[0], [1]]), 2, longest=1).argmax(-1).tolist()  # no path leads from 1 to 0
    [[0, 2], [1, 0]]
    """
    step, reached = adjacency(edge_index, num_nodes), torch.eye(num_nodes, dtype=torch.bool)
    distances = torch.full((num_nodes, num_nodes), longest + 1).masked_fill(reached, 0)
    for length in range(1, longest + 1):
        further = (step @ reached.float()) > 0  # [i, j]: from j to i in one step more
        distances[further & ~reached] = length
        reached |= further
    return torch.nn.functional.one_hot(distances, longest + 2).float()


def random_walks(edge_index: Tensor, num_nodes: int, steps: int) -> Tensor:
    """The probability that a walk from j is at i after 1, 2, ... steps, [n, n, steps]; a walk without a way on ends."""
    step = adjacency(edge_index, num_nodes)
    step = step / step.sum(0).clamp_min(1)
    walks = [step]
    for _ in range(steps - 1):
        walks.append(step @ walks[-1])
    return torch.stack(walks, dim=-1)


def laplacian_products(edge_index: Tensor, num_nodes: int, count: int) -> Tensor:
    """Products of entries of the first eigenvectors that are not constant, [n, n, count]; zeros where a graph is too
    small to have so many."""
    known = min(count, num_nodes - 1)
    vectors = torch.zeros(num_nodes, count)
    if known > 0:
        graph = Data(edge_index=edge_index, num_nodes=num_nodes)
        vectors[:, :known] = AddLaplacianEigenvectorPE(known, attr_name="vectors", is_undirected=True)(graph).vectors
    return vectors.unsqueeze(1) * vectors.unsqueeze(0)
