"""The layers of a fleet where nothing will be differentiated: new nodes and edges are all that is written."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .arguments import LayerWeights, address
from .launching import Kernel, launch
from .parameters import HEADS


class Inference:
    """Layers one after another, `nodes, edges = inference(nodes, edges)`, one launch each.

    The same numbers as a `Trajectory`, to the bit. A graph of 16 nodes writes 174 KB a layer, where one that is
    differentiated writes 431: its edges, its nodes, and mean edges by heads, which no later launch reads and which
    therefore lie in one place for all. Without an edge update it writes 80: its edges are those that it was given.

    Args:
        packed: for each layer its weights as `pack_forward` lays them out, [S, packed].
        update_edges: whether the layers have an edge update.
    """

    def __init__(self, packed: Sequence[tuple[Tensor, Tensor]], *, update_edges: bool) -> None:
        self.packed, self.update_edges = packed, update_edges
        self._context = packed[0][0].new_empty(0)

    @torch.no_grad()
    def __call__(self, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        """New nodes [S, G, N, D] and edges [S, G, N, N, D] after all layers."""
        nodes, edges = nodes.contiguous(), edges.contiguous()
        seeds, graphs, count, _ = nodes.shape
        kernel = Kernel("layer_inference", count, self.update_edges)
        context = self._context_of(HEADS * nodes.numel())
        for matrices, vectors in self.packed:
            new_nodes, new_edges = torch.empty_like(nodes), torch.empty_like(edges) if self.update_edges else None
            weights = LayerWeights(matrices.data_ptr(), vectors.data_ptr())
            addresses = map(address, (nodes, edges, new_nodes, new_edges, context))
            launch(kernel, (graphs, seeds), [weights, *addresses], edges.device)
            nodes, edges = new_nodes, edges if new_edges is None else new_edges
        return nodes, edges

    def _context_of(self, numbers: int) -> Tensor:
        if self._context.numel() < numbers:
            self._context = self._context.new_empty(numbers)
        return self._context
