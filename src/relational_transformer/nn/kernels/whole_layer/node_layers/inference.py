"""Layers without edges of a fleet where nothing will be differentiated: new nodes are all that is written."""

import torch
from torch import Tensor

from ..launching import Kernel, launch
from .arguments import ForwardArguments


class NodeInference:
    """Layers one after another, `nodes = inference(nodes)`, one launch for all. The bits of a `NodeTrajectory`.

    Args:
        packed: the weights of all layers as `pack_forward` lays them out, [L, S, packed].
    """

    def __init__(self, packed: tuple[Tensor, Tensor]) -> None:
        self.matrices, self.vectors = packed

    @torch.no_grad()
    def __call__(self, nodes: Tensor) -> Tensor:
        """New nodes [S, G, N, D] after all layers."""
        nodes = nodes.contiguous()
        seeds, graphs, count, _ = nodes.shape
        new_nodes = torch.empty_like(nodes)
        arguments = ForwardArguments(
            matrices=self.matrices.data_ptr(),
            vectors=self.vectors.data_ptr(),
            nodes=nodes.data_ptr(),
            new_nodes=new_nodes.data_ptr(),
            layers=len(self.matrices),
            kept_graphs=graphs,
        )
        launch(Kernel("node_layers_inference", count), (graphs, seeds), [arguments], nodes.device)
        return new_nodes
