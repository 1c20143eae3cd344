"""Scores of a fleet on a split, computed where the data is, without waiting for the device."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from relational_transformer.reasoning.features import Packed
from relational_transformer.reasoning.network import Network
from relational_transformer.reasoning.scores import count_all, mean_score

from .compiling import compiled_for
from .data import Split
from .evaluation_around_layers import EvaluationAroundLayers
from .over_seeds import Parameters, over_seeds
from .parts import Part, cut_by_length
from .precision import Precision, for_computing

CHANNELS_AT_ONCE = {"cuda": 100_000_000, "cpu": 40_000_000}
"""Channels of the edge vectors of all seeds that are evaluated together: enough to fill the device, and it bounds the
memory."""

CHANNELS_IN_CACHE = 20_000_000
"""The same where layers are kernels, which need fewer graphs to fill the device: three graphs of 16 nodes, or two of
20, for each multiprocessor of an H200; and their edges, 40 MB, about fill its cache. Shorter parts have fewer steps."""

EDGES_WORTH_COMPILING = 100_000_000
"""Edges of all steps and seeds from which on compiling saves more time than it takes, if scores are wanted once."""


class Evaluator:
    """Runs a fleet on its own hints over a split and scores the outputs, micro-averaged over the whole split.

    Examples are taken in order of length, so that short ones are not carried along with long ones. Where every layer
    fits one kernel, steps are those of `EvaluationAroundLayers`; else whole ones.
    """

    def __init__(
        self, network: Network, split: Split, num_seeds: int, precision: Precision, *, compiled: bool = False
    ) -> None:
        self.network, self.split = network, split
        device = split.lengths.device
        self._whole = _WholeSteps(network, precision, device, compiled=compiled)
        self._around = EvaluationAroundLayers(network, split.num_nodes, precision, device, compiled=compiled)
        channels = num_seeds * split.num_nodes**2 * network.hidden_size
        at_once = CHANNELS_IN_CACHE if self._around.fits else CHANNELS_AT_ONCE[device.type]
        self.parts = cut_by_length(split, num_seeds, max(1, at_once // channels))

    @torch.no_grad()
    def scores(self, parameters: Parameters) -> Tensor:
        """The score of every seed, float64 [S]; parameters [S, *shape] by name."""
        count = (self._around if self._around.fits else self._whole).counter(parameters)
        counts: Packed = {}
        for part in self.parts:
            for key, more in count(part).items():
                counts[key] = counts[key] + more if key in counts else more
        return torch.vmap(lambda counts: mean_score(self.network.outputs, counts))(counts)


class _WholeSteps:
    """Counts what a score is made of, by steps of the network as it is defined."""

    def __init__(self, network: Network, precision: Precision, device: torch.device, *, compiled: bool) -> None:
        self.network = network
        self.precision: Precision = precision
        self._encode = over_seeds(network, "encode_inputs")
        self._start = over_seeds(network, "initial_carry")
        advance = over_seeds(network, "advance")
        self._advance = compiled_for(advance, device) if compiled else advance

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


def edges_of_steps(split: Split, num_seeds: int) -> int:
    """How many edges the seeds update on a split, all steps together."""
    return num_seeds * split.num_nodes**2 * int(split.host_lengths.sum())
