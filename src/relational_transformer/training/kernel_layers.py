"""The layers of a network that are kernels of their own, and their parameters among all others."""

import torch
from torch import Tensor

from relational_transformer.nn import RelationalTransformerLayer, kernels
from relational_transformer.nn.kernels.whole_layer.parameters import NAMES, of_layer
from relational_transformer.processors.relational import RelationalProcessor
from relational_transformer.reasoning.network import Network

from .over_seeds import Parameters
from .precision import Precision

LAYERS = "processor.transformer.layers"


class KernelLayers:
    """The layers of a network on graphs of so many nodes.

    Attributes:
        num_nodes: of a graph, the core node among them.
        update_edges: whether the layers do.
    """

    def __init__(self, network: Network, num_nodes: int, precision: Precision, device: torch.device) -> None:
        processor = network.processor
        self.layers: list[RelationalTransformerLayer] = []
        self.num_nodes = num_nodes
        if type(processor) is RelationalProcessor and precision == "bf16":
            self.layers = list(processor.transformer.layers)  # pyright: ignore[reportAttributeAccessIssue]
            self.num_nodes += processor.returns_globals
        self.update_edges = all(layer.update_edges for layer in self.layers)
        self._like_edges = torch.empty(1, self.num_nodes, self.num_nodes, 0, dtype=torch.bfloat16, device=device)

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def fit(self) -> bool:
        """Whether all of them are kernels as things are now; kernels can be turned on and off."""
        edges = self._like_edges
        return bool(self.layers) and all(kernels.is_one_kernel(layer, edges[:, 0], edges) for layer in self.layers)

    def parameters(self, by_name: Parameters) -> list[dict[str, Tensor]]:
        """Those of each layer, by their names in it."""
        names = of_layer(NAMES, self.update_edges)
        return [{name: by_name[f"{LAYERS}.{number}.{name}"] for name in names} for number in range(len(self))]


def is_of_layers(name: str) -> bool:
    """Whether a parameter of a network is one of a layer."""
    return name.startswith(f"{LAYERS}.")
