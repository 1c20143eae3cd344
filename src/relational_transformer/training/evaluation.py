"""Scores of a fleet on a split, computed where the data is, without waiting for the device."""

import torch
from torch import Tensor

from relational_transformer.reasoning.network import Network
from relational_transformer.reasoning.scores import count_all, mean_score

from .compiling import compiled_for
from .data import Split
from .over_seeds import Parameters, over_seeds
from .precision import Precision, for_computing

CHANNELS_AT_ONCE = {"cuda": 100_000_000, "cpu": 40_000_000}
"""Channels of the edge vectors of all seeds that are evaluated together: enough to fill the device, and it bounds the
memory."""

EDGES_WORTH_COMPILING = 100_000_000
"""Edges of all steps and seeds from which on compiling saves more time than it takes, if scores are wanted once."""


class Evaluator:
    """Runs a fleet on its own hints over a split and scores the outputs, micro-averaged over the whole split.

    Examples are taken in order of length, so that short ones are not carried along with long ones.
    """

    def __init__(
        self, network: Network, split: Split, num_seeds: int, precision: Precision, *, compiled: bool = False
    ) -> None:
        self.network, self.split, self.num_seeds = network, split, num_seeds
        self.precision: Precision = precision
        device = split.lengths.device
        channels = num_seeds * split.num_nodes**2 * network.hidden_size
        at_once = size_of_parts(len(split), max(1, CHANNELS_AT_ONCE[device.type] // channels))
        order = split.lengths.argsort(stable=True)
        self.parts = order.split(at_once)
        self.steps_of_part = [max(1, int(split.lengths[part].max()) - 1) for part in self.parts]
        self._encode = over_seeds(network, "encode_inputs")
        self._start = over_seeds(network, "initial_carry")
        advance = over_seeds(network, "advance")
        self._advance = compiled_for(advance, device) if compiled else advance

    @torch.no_grad()
    def scores(self, parameters: Parameters) -> Tensor:
        """The score of every seed, float64 [S]; parameters [S, *shape] by name."""
        parameters = {name: for_computing(values, self.precision) for name, values in parameters.items()}
        counts: dict[str, Tensor] = {}
        for part, num_steps in zip(self.parts, self.steps_of_part, strict=True):
            for key, more in self._count(parameters, part, num_steps).items():
                counts[key] = counts[key] + more if key in counts else more
        return torch.vmap(lambda counts: mean_score(self.network.outputs, counts))(counts)

    def _count(self, parameters: Parameters, part: Tensor, num_steps: int) -> dict[str, Tensor]:
        batch = self.split.gather(part.unsqueeze(0), 1)

        def for_all(features: dict[str, Tensor]) -> dict[str, Tensor]:
            return {key: data.expand(self.num_seeds, *data.shape[1:]) for key, data in features.items()}

        lengths = batch.lengths.expand(self.num_seeds, -1)
        hints = for_all({key: hint[0] for key, hint in batch.hints.items()})
        encoded = self._encode(parameters, for_all(batch.inputs))
        carry = self._start(parameters, encoded)
        for step in range(num_steps):
            is_first = torch.full_like(lengths, step == 0, dtype=torch.bool)
            carry = self._advance(parameters, encoded, carry, hints, is_first, (lengths > step + 1) | is_first)
        return torch.vmap(lambda logits, truth: count_all(self.network.outputs, logits, truth))(
            carry.outputs, for_all(batch.outputs)
        )


def size_of_parts(count: int, most: int) -> int:
    """Into parts of how many examples to cut a split: at most `most`, and equal ones where that costs little.

    >>> size_of_parts(2048, 700), size_of_parts(32, 700), size_of_parts(31, 10)
    (512, 32, 10)
    """
    most = min(count, most)
    largest = max(size for size in range(1, most + 1) if count % size == 0)
    return largest if 2 * largest >= most else most


def edges_of_steps(split: Split, num_seeds: int) -> int:
    """How many edges the seeds update on a split, all steps together."""
    return num_seeds * split.num_nodes**2 * int(split.host_lengths.sum())
