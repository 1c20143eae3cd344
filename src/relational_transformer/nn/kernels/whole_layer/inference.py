"""The layers of a fleet where nothing will be differentiated: new nodes and edges are all that is written."""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from .launching import launch
from .parameters import HEADS, LayerWeights


class Inference:
    """Layers one after another, `nodes, edges = inference(nodes, edges)`, one launch each.

    The same numbers as a `Trajectory`, to the bit. A graph of 16 nodes writes 174 KB a layer, where one that is
    differentiated writes 431: its edges, its nodes, and mean edges by heads, which no later launch reads and which
    therefore lie in one place for all.

    Args:
        packed: for each layer its weights as `pack_forward` lays them out, [S, packed].
    """

    def __init__(self, packed: Sequence[tuple[Tensor, Tensor]]) -> None:
        self.packed = packed
        self._context = packed[0][0].new_empty(0)

    @torch.no_grad()
    def __call__(self, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        """New nodes [S, G, N, D] and edges [S, G, N, N, D] after all layers."""
        nodes, edges = nodes.contiguous(), edges.contiguous()
        seeds, graphs, count, _ = nodes.shape
        context = self._context_of(HEADS * nodes.numel())
        for matrices, vectors in self.packed:
            made = torch.empty_like(nodes), torch.empty_like(edges)
            weights = LayerWeights(matrices.data_ptr(), vectors.data_ptr())
            addresses = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (nodes, edges, *made, context)]
            launch("layer_inference", count, (graphs, seeds), [weights, *addresses], edges.device)
            nodes, edges = made
        return nodes, edges

    def _context_of(self, numbers: int) -> Tensor:
        if self._context.numel() < numbers:
            self._context = self._context.new_empty(numbers)
        return self._context
