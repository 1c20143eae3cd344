"""Scores of a fleet on a split, computed where the data is, without waiting for the device."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from relational_transformer.fleet.over_seeds import Parameters, over_seeds
from relational_transformer.fleet.pieces import Pieces
from relational_transformer.fleet.precision import Precision, for_computing
from relational_transformer.nn.kernels import ForInference, Orders
from relational_transformer.reasoning.features import Packed
from relational_transformer.reasoning.folded_steps import FoldedCarry, answer, begin, go_on
from relational_transformer.reasoning.folding import Folded
from relational_transformer.reasoning.network import Network
from relational_transformer.reasoning.scores import count_all, mean_score

from .data import Split
from .fused_step import kernel_layers

CHANNELS_AT_ONCE = {"cuda": 100_000_000, "cpu": 40_000_000}
"""Channels of the edge vectors of all seeds that are evaluated together: enough to fill the device, and it bounds the
memory."""

CHANNELS_IN_CACHE = 20_000_000
"""The same where layers are kernels, which need fewer graphs to fill the device: three graphs of 16 nodes, or two of
20, for each multiprocessor of an H200; and their edges, 40 MB, about fill its cache. Shorter parts have fewer steps."""

EDGES_WORTH_COMPILING = 100_000_000
"""Edges of all steps and seeds from which on compiling saves more time than it takes, if scores are wanted once."""


@dataclass(frozen=True)
class Part:
    """Examples that go together through the steps that the longest of them needs.

    All tensors are [S, B, ...]; the seeds are views of one and the same data.

    Attributes:
        first_hints: true hints of the first step.
        counted: which examples are scored, bool; the others fill up the part.
        keeps_output: for every step, whose outputs replace those of the steps before, bool.
    """

    inputs: Packed
    first_hints: Packed
    outputs: Packed
    counted: Tensor
    keeps_output: list[Tensor]

    @property
    def num_steps(self) -> int:
        return len(self.keeps_output)


def cut_by_length(split: Split, num_seeds: int, most: int) -> list[Part]:
    """Parts of at most `most` examples, all of one size, in order of length: an example that has ended needs no more
    steps, so short ones are not to wait for long ones. The first part is filled up with its shortest example."""
    size = size_of_parts(len(split), most)
    order = split.lengths.argsort(stable=True)
    missing = -len(split) % size
    filled = torch.cat([order[:1].expand(missing), order])
    counted = torch.arange(len(filled), device=order.device) >= missing
    return [
        _make_part(split, index, of_part, num_seeds)
        for index, of_part in zip(filled.split(size), counted.split(size), strict=True)
    ]


def size_of_parts(count: int, most: int) -> int:
    """Into parts of how many examples to cut a split: at most `most`, and such that little is left to fill up.

    >>> size_of_parts(2048, 700), size_of_parts(2048, 135), size_of_parts(32, 700), size_of_parts(31, 10)
    (683, 128, 32, 8)
    """
    number = -(-count // most)
    return -(-count // number)


def _make_part(split: Split, index: Tensor, counted: Tensor, num_seeds: int) -> Part:
    batch = split.gather(index.unsqueeze(0), 1)
    lengths = batch.lengths[0]

    def for_all(data: Tensor) -> Tensor:
        return data.expand(num_seeds, *data.shape[1:])

    def each(features: Packed) -> Packed:
        return {key: for_all(data) for key, data in features.items()}

    # One tensor a step, and not rows of one: the compiler copies what is not aligned.
    keeps_output = [
        for_all(((lengths > step + 1) | (step == 0)).unsqueeze(0)) for step in range(max(1, int(lengths.max()) - 1))
    ]
    hints = {key: hint[0] for key, hint in batch.hints.items()}
    return Part(
        each(batch.inputs), each(hints), each(batch.outputs), for_all(counted.clone().unsqueeze(0)), keeps_output
    )


class Evaluator:
    """Runs a fleet on its own hints over a split and scores the outputs, micro-averaged over the whole split.

    Examples are taken in order of length, so that short ones are not carried along with long ones. Where every layer
    fits one kernel, steps are those of `FusedEvaluation`; else whole ones.
    """

    def __init__(
        self, network: Network, split: Split, num_seeds: int, precision: Precision, *, compiled: bool = False
    ) -> None:
        self.network, self.split = network, split
        device = split.lengths.device
        pieces = Pieces(device, compiled=compiled)
        self._whole = WholeEvaluation(pieces, network, precision)
        self._fused = FusedEvaluation(pieces, network, split.num_nodes, precision)
        channels = num_seeds * split.num_nodes**2 * network.hidden_size
        at_once = CHANNELS_IN_CACHE if self._fused.fits else CHANNELS_AT_ONCE[device.type]
        self.parts = cut_by_length(split, num_seeds, max(1, at_once // channels))

    @torch.no_grad()
    def scores(self, parameters: Parameters) -> Tensor:
        """The score of every seed, float64 [S]; parameters [S, *shape] by name."""
        count = (self._fused if self._fused.fits else self._whole).counter(parameters)
        counts: Packed = {}
        for part in self.parts:
            for key, more in count(part).items():
                counts[key] = counts[key] + more if key in counts else more
        return torch.vmap(lambda counts: mean_score(self.network.outputs, counts))(counts)


class WholeEvaluation:
    """Counts what a score is made of, by steps of the network as it is defined."""

    def __init__(self, pieces: Pieces, network: Network, precision: Precision) -> None:
        self.network = network
        self.precision: Precision = precision
        self._encode = over_seeds(network, "encode_inputs")
        self._start = over_seeds(network, "initial_carry")
        self._advance = pieces.of(network, "advance")

    def counter(self, parameters: Parameters) -> Callable[[Part], Packed]:
        """What counts a part, [S, 3, F] by key, with these parameters."""
        return partial(
            self._count, {name: for_computing(values, self.precision) for name, values in parameters.items()}
        )

    def _count(self, parameters: Parameters, part: Part) -> Packed:
        encoded = self._encode(parameters, part.inputs)
        carry = self._start(parameters, encoded)
        is_first, is_later = torch.ones_like(part.counted), torch.zeros_like(part.counted)
        for step, keeps_output in enumerate(part.keeps_output):
            forced = is_later if step else is_first
            carry = self._advance(parameters, encoded, carry, part.first_hints, forced, keeps_output)

        def count(logits: Packed, truth: Packed, counted: Tensor) -> Packed:
            return count_all(self.network.outputs, logits, truth, example_mask=counted)

        return torch.vmap(count)(carry.outputs, part.outputs, part.counted)


class FusedEvaluation:
    """Counts what a score is made of, as steps of `Network.advance` would, where every layer fits one kernel.

    What lies between the layers of one step and those of the next is one compiled piece (`folded_steps.py`); weights
    are laid out for the kernels once for all parts of a split.
    """

    def __init__(self, pieces: Pieces, network: Network, num_nodes: int, precision: Precision) -> None:
        self.layers = kernel_layers(network, num_nodes, precision, pieces.device)
        self.precision: Precision = precision
        self._lay_out = pieces.compile(self._parameters)
        self._begin, self._go_on = pieces.of(network, begin), pieces.of(network, go_on)
        self._score = pieces.of(network, count_answers)

    @property
    def fits(self) -> bool:
        """Whether all layers are kernels as things are now."""
        return self.layers.fit

    def counter(self, parameters: Parameters) -> Callable[[Part], Packed]:
        """What counts a part, [S, 3, F] by key, with these parameters."""
        others, laid_out = self._lay_out(parameters, self.layers.orders)
        return partial(self._count, others, self.layers.inference(laid_out))

    def _count(self, others: Parameters, layers: Callable[..., tuple[Tensor, Tensor]], part: Part) -> Packed:
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


def edges_of_steps(split: Split, num_seeds: int) -> int:
    """How many edges the seeds update on a split, all steps together."""
    return num_seeds * split.num_nodes**2 * int(split.host_lengths.sum())
