"""The parts that attention takes the edges in, so that the buffer of their queries and keys stays small."""

from dataclasses import dataclass

import torch
import triton
from torch import Tensor


@dataclass(frozen=True)
class Part:
    """Rows row ... row + rows of graphs first ... first + graphs of every seed: whole graphs, or a piece of one."""

    first: int
    graphs: int
    row: int
    rows: int

    def of(self, tensor: Tensor) -> Tensor:
        """This part of a tensor [S, G, NQ, ...]."""
        return tensor[:, self.first : self.first + self.graphs, self.row : self.row + self.rows]

    def edges(self, edges: Tensor) -> Tensor:
        """The edges of this part in a row [S, graphs * rows * NK, E], a view."""
        return self.of(edges).flatten(1, 3)


def parts_of_edges(edges: Tensor, width: int, buffer_bytes: int) -> list[Part]:
    """Parts of edges [S, G, NQ, NK, E] whose queries and keys of `width` channels fit a buffer, about equal in size.

    A buffer is at least a row of each seed. The first part is the largest.
    """
    seeds, graphs, queries, keys, _ = edges.shape
    rows_that_fit = max(1, buffer_bytes // (seeds * keys * 2 * width * edges.element_size()))
    graphs_at_once = equal_parts(graphs, max(1, rows_that_fit // queries))
    rows_at_once = equal_parts(queries, rows_that_fit)
    return [
        Part(first, min(graphs_at_once, graphs - first), row, min(rows_at_once, queries - row))
        for first in range(0, graphs, graphs_at_once)
        for row in range(0, queries, rows_at_once)
    ]


def equal_parts(count: int, most: int) -> int:
    """The size of the parts that so many things are cut into, at most so large.

    >>> equal_parts(32, 10), equal_parts(4, 10), equal_parts(7, 1)
    (8, 4, 1)
    """
    return triton.cdiv(count, triton.cdiv(count, most))


def pair_buffer(edges: Tensor, width: int, largest: Part) -> Tensor:
    """Room for the queries and keys of the largest part's edges."""
    return edges.new_empty(edges.shape[0] * largest.graphs * largest.rows * edges.shape[3] * 2 * width)


def edge_pairs(edges: Tensor, weight: Tensor, buffer: Tensor) -> Tensor:
    """W_q e and W_k e side by side [S, R, 2 * H * D], in the buffer, of edges [S, R, E]."""
    seeds, rows, _ = edges.shape
    width = weight.shape[1] // 3
    pairs = buffer[: seeds * rows * 2 * width].view(seeds, rows, 2 * width)
    return torch.bmm(edges, weight[:, : 2 * width].transpose(1, 2), out=pairs)
