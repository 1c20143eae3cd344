"""Scores of a network whose layers are fused kernels: the layers, and compiled functions between them."""

from collections.abc import Callable
from functools import partial

from torch import Tensor

from relational_transformer.fleet.pieces import Parameters, Pieces
from relational_transformer.fleet.precision import for_computing
from relational_transformer.nn.kernels import ForInference, Orders
from relational_transformer.reasoning.features import Packed
from relational_transformer.reasoning.folded_steps import FoldedCarry, answer, begin, go_on
from relational_transformer.reasoning.folding import Shared
from relational_transformer.reasoning.network import Network
from relational_transformer.reasoning.scores import count_all

from .evaluation import Chunk
from .fused_step import kernel_layers


class FusedEvaluation:
    """Counts what a score is computed from, as `WholeEvaluation` does, where every layer is one fused kernel.

    All operations between the layers of one step and those of the next are one compiled function (`folded_steps.py`).
    The weights are laid out for the kernels once for all chunks of a split.
    """

    def __init__(self, pieces: Pieces, network: Network, num_nodes: int) -> None:
        self.layers = kernel_layers(network, num_nodes, pieces.device)
        self.layers.compile_ahead("layer_inference")
        self._lay_out = pieces.compile(self._parameters)
        self._begin, self._go_on = pieces.of(network, begin), pieces.of(network, go_on)
        self._score = pieces.of(network, count_answers)

    @property
    def fits(self) -> bool:
        """Whether all layers run as fused kernels now; `use_kernels` may switch them off."""
        return self.layers.fit

    def counter(self, parameters: Parameters) -> Callable[[Chunk], Packed]:
        """A function that counts a chunk with these parameters, [S, 3, F] by key."""
        others, laid_out = self._lay_out(parameters, self.layers.orders)
        return partial(self._count, others, self.layers.inference(laid_out))

    def _count(self, others: Parameters, layers: Callable[..., tuple[Tensor, Tensor]], chunk: Chunk) -> Packed:
        folded, (carry, nodes, edges) = self._begin(others, chunk.inputs, chunk.first_hints)
        nodes, edges = layers(nodes, edges)
        for keeps_output in chunk.keeps_output[:-1]:
            carry, nodes, edges = self._go_on({}, folded, carry, keeps_output, nodes, edges)
            nodes, edges = layers(nodes, edges)
        return self._score({}, folded, carry, chunk.keeps_output[-1], nodes, edges, chunk.outputs, chunk.counted)

    def _parameters(self, parameters: Parameters, orders: Orders) -> tuple[Parameters, ForInference]:
        cast = {name: for_computing(values, "bf16") for name, values in parameters.items()}
        others = {name: values for name, values in cast.items() if not self.layers.has(name)}
        return others, self.layers.lay_out_forward(cast, orders)


def count_answers(
    network: Network, folded: Shared, carry: FoldedCarry, keeps_output: Tensor, nodes: Tensor, edges: Tensor | None,
    truth: Packed, counted: Tensor,
) -> Packed:  # fmt: skip
    """The counts of the outputs after the last step, by key."""
    logits = answer(network, folded, carry, keeps_output, nodes, edges)
    return count_all(network.outputs, logits, truth, example_mask=counted)
