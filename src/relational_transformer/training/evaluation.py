"""Scores of a fleet on a split, computed on the device without waiting for it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from relational_transformer.fleet.pieces import Parameters, Pieces, over_seeds
from relational_transformer.fleet.precision import Precision, for_computing
from relational_transformer.reasoning.features import Packed
from relational_transformer.reasoning.network import Network
from relational_transformer.reasoning.scores import count_all, mean_score

from .data import Split

if TYPE_CHECKING:
    from .fused_evaluation import FusedEvaluation

CHANNELS_AT_ONCE = {"cuda": 100_000_000, "cpu": 40_000_000}
"""Channels of the edge vectors of all seeds in one chunk: enough to fill the device, few enough for its memory."""

CHANNELS_IN_CACHE = 20_000_000
"""`CHANNELS_AT_ONCE` where layers are fused kernels, which need fewer graphs to fill the device: three graphs of 16
nodes, or two of 20, for each multiprocessor of an H200. Their edges, 40 MB, about fill its cache. Smaller chunks waste
fewer steps on examples that have ended."""

EDGES_WORTH_COMPILING = 100_000_000
"""The number of edges, over all steps and seeds, from which compiling saves more time than it takes for a single
evaluation."""


@dataclass(frozen=True)
class Chunk:
    """Examples that are evaluated together, for as many steps as the longest of them has.

    All tensors are [S, B, ...]; the seeds are views of one and the same data.

    Attributes:
        first_hints: the true hints of the first step.
        counted: whether an example is scored, bool; the others are padding.
        keeps_output: for every step, whether its outputs replace those of earlier steps, bool.
    """

    inputs: Packed
    first_hints: Packed
    outputs: Packed
    counted: Tensor
    keeps_output: list[Tensor]

    @property
    def num_steps(self) -> int:
        return len(self.keeps_output)


def cut_by_length(split: Split, num_seeds: int, most: int) -> list[Chunk]:
    """Chunks of at most `most` examples, all of one size, in order of length, so that short examples are not carried
    through the steps of long ones. The first chunk is padded with copies of its shortest example."""
    size = size_of_chunks(len(split), most)
    order = split.lengths.argsort(stable=True)
    missing = -len(split) % size
    filled = torch.cat([order[:1].expand(missing), order])
    counted = torch.arange(len(filled), device=order.device) >= missing
    return [
        _make_chunk(split, index, of_chunk, num_seeds)
        for index, of_chunk in zip(filled.split(size), counted.split(size), strict=True)
    ]


def size_of_chunks(count: int, most: int) -> int:
    """The size of equal chunks of `count` examples: at most `most`, with little padding.

    >>> size_of_chunks(2048, 700), size_of_chunks(2048, 135), size_of_chunks(32, 700), size_of_chunks(31, 10)
    (683, 128, 32, 8)
    """
    number = -(-count // most)
    return -(-count // number)


def _make_chunk(split: Split, index: Tensor, counted: Tensor, num_seeds: int) -> Chunk:
    batch = split.gather(index.unsqueeze(0), 1)
    lengths = batch.lengths[0]

    def for_all(data: Tensor) -> Tensor:
        return data.expand(num_seeds, *data.shape[1:])

    def each(features: Packed) -> Packed:
        return {key: for_all(data) for key, data in features.items()}

    # A tensor for each step, not rows of one tensor: the compiler copies unaligned rows.
    keeps_output = [
        for_all(((lengths > step + 1) | (step == 0)).unsqueeze(0)) for step in range(max(1, int(lengths.max()) - 1))
    ]
    hints = {key: hint[0] for key, hint in batch.hints.items()}
    return Chunk(
        each(batch.inputs), each(hints), each(batch.outputs), for_all(counted.clone().unsqueeze(0)), keeps_output
    )


class Evaluator:
    """Runs a fleet on its own hints over a split and scores its outputs, micro-averaged over the split.

    Examples are taken in order of length, so that short ones are not carried through the steps of long ones.
    `FusedEvaluation` runs them where every layer is one fused kernel, `WholeEvaluation` elsewhere.
    """

    def __init__(
        self, network: Network, split: Split, num_seeds: int, precision: Precision, *, compiled: bool = False
    ) -> None:
        self.network, self.split = network, split
        device = split.lengths.device
        pieces = Pieces(device, compiled=compiled)
        self._whole = WholeEvaluation(pieces, network, precision)
        self._fused = fused_evaluation(pieces, network, split.num_nodes, precision)
        channels = num_seeds * split.num_nodes**2 * network.hidden_size
        at_once = CHANNELS_IN_CACHE if self._runs_fused else CHANNELS_AT_ONCE[device.type]
        self.chunks = cut_by_length(split, num_seeds, max(1, at_once // channels))

    @torch.no_grad()
    def scores(self, parameters: Parameters) -> Tensor:
        """The score of every seed, float64 [S]; parameters [S, *shape] by name."""
        fused = self._fused if self._runs_fused else None
        count = (fused or self._whole).counter(parameters)
        counts: Packed = {}
        for chunk in self.chunks:
            for key, more in count(chunk).items():
                counts[key] = counts[key] + more if key in counts else more
        return torch.vmap(lambda counts: mean_score(self.network.outputs, counts))(counts)

    @property
    def _runs_fused(self) -> bool:
        return self._fused is not None and self._fused.fits


class WholeEvaluation:
    """Counts what a score is computed from, by whole steps of the network."""

    def __init__(self, pieces: Pieces, network: Network, precision: Precision) -> None:
        self.network = network
        self.precision: Precision = precision
        self._encode = over_seeds(network, "encode_inputs")
        self._start = over_seeds(network, "initial_carry")
        self._advance = pieces.of(network, "advance")

    def counter(self, parameters: Parameters) -> Callable[[Chunk], Packed]:
        """A function that counts a chunk with these parameters, [S, 3, F] by key."""
        return partial(
            self._count, {name: for_computing(values, self.precision) for name, values in parameters.items()}
        )

    def _count(self, parameters: Parameters, chunk: Chunk) -> Packed:
        encoded = self._encode(parameters, chunk.inputs)
        carry = self._start(parameters, encoded)
        is_first, is_later = torch.ones_like(chunk.counted), torch.zeros_like(chunk.counted)
        for step, keeps_output in enumerate(chunk.keeps_output):
            forced = is_later if step else is_first
            carry = self._advance(parameters, encoded, carry, chunk.first_hints, forced, keeps_output)

        def count(logits: Packed, truth: Packed, counted: Tensor) -> Packed:
            return count_all(self.network.outputs, logits, truth, example_mask=counted)

        return torch.vmap(count)(carry.outputs, chunk.outputs, chunk.counted)


def fused_evaluation(
    pieces: Pieces, network: Network, num_nodes: int, precision: Precision
) -> "FusedEvaluation | None":
    """The evaluation by fused kernels, which compute in bfloat16; None for a network that has none."""
    if precision != "bf16":
        return None
    from .fused_evaluation import FusedEvaluation  # here, because most runs on a CPU need no kernels
    from .fused_step import can_fuse

    return FusedEvaluation(pieces, network, num_nodes) if can_fuse(network) else None


def edges_of_steps(split: Split, num_seeds: int) -> int:
    """The number of edges that all seeds update on a split, over all steps."""
    return num_seeds * split.num_nodes**2 * int(split.host_lengths.sum())
