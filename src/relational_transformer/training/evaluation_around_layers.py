"""Steps on the network's own hints whose layers are kernels of their own, between compiled pieces."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from relational_transformer.nn.kernels.whole_layer.inference import Inference
from relational_transformer.nn.kernels.whole_layer.packing import Orders
from relational_transformer.reasoning.features import Packed
from relational_transformer.reasoning.folded_steps import FoldedCarry, answer, begin, go_on
from relational_transformer.reasoning.folding import Folded
from relational_transformer.reasoning.network import Network
from relational_transformer.reasoning.scores import count_all

from .compiling import compiled_for
from .kernel_layers import ForInference, kernel_layers
from .over_seeds import Parameters, over_seeds
from .parts import Part
from .precision import Precision, for_computing


class EvaluationAroundLayers:
    """Counts what a score is made of, as steps of `Network.advance` would, where every layer fits one kernel.

    What lies between the layers of one step and those of the next is one compiled piece (`folded_steps.py`); weights
    are laid out for the kernels once for all parts of a split.
    """

    def __init__(
        self, network: Network, num_nodes: int, precision: Precision, device: torch.device, *, compiled: bool
    ) -> None:
        self.layers = kernel_layers(network, num_nodes, precision, device)
        self.precision: Precision = precision

        def piece(function: Callable[..., Any]) -> Callable[..., Any]:
            return compiled_for(function, device) if compiled else function

        self._lay_out = piece(self._parameters)
        self._begin = piece(over_seeds(network, begin))
        self._go_on = piece(over_seeds(network, go_on))
        self._score = piece(over_seeds(network, count_answers))

    @property
    def fits(self) -> bool:
        """Whether all layers are kernels as things are now."""
        return self.layers.fit

    def counter(self, parameters: Parameters) -> Callable[[Part], Packed]:
        """What counts a part, [S, 3, F] by key, with these parameters."""
        others, laid_out = self._lay_out(parameters, self.layers.orders)
        return partial(self._count, others, self.layers.inference(laid_out))

    def _count(self, others: Parameters, layers: Inference, part: Part) -> Packed:
        folded, (carry, nodes, edges) = self._begin(others, part.inputs, part.first_hints)
        nodes, edges = layers(nodes, edges)
        for keeps_output in part.keeps_output[:-1]:
            carry, nodes, edges = self._go_on({}, folded, carry, keeps_output, nodes, edges)
            nodes, edges = layers(nodes, edges)
        return self._score({}, folded, carry, part.keeps_output[-1], nodes, edges, part.outputs, part.counted)

    def _parameters(self, parameters: Parameters, orders: Orders) -> tuple[Parameters, ForInference]:
        cast = {name: for_computing(values, self.precision) for name, values in parameters.items()}
        others = {name: values for name, values in cast.items() if not self.layers.has(name)}
        return others, self.layers.lay_out_forward(cast, orders)


def count_answers(
    network: Network, folded: Folded, carry: FoldedCarry, keeps_output: Tensor, nodes: Tensor, edges: Tensor | None,
    truth: Packed, counted: Tensor,
) -> Packed:  # fmt: skip
    """What counts in the answers after the last step, by key."""
    logits = answer(network, folded, carry, keeps_output, nodes, edges)
    return count_all(network.outputs, logits, truth, example_mask=counted)
