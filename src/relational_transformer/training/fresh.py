"""Fresh examples of several sizes for every part of a run: the training data of the modern protocol.

Part n of a run trains on block n of `clrs.training_blocks`, with random numbers that depend on the seed, n and the
size alone, so a run can be resumed at any part. The examples of each size have tensors of their own, whose addresses
do not change: those of the next part are copied into them. Neither the host nor the device waits for the other.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import replace

import numpy as np
import torch

from relational_transformer.clrs.samples.blocks import TrainingBlock, training_block, training_blocks
from relational_transformer.clrs.trajectories import Trajectories
from relational_transformer.reasoning.features import Packed
from relational_transformer.reasoning.network import Network
from relational_transformer.runs.task import Start

from .config import TrainConfig
from .data import Draw, Split, length_buckets, load_split
from .mixed_step import MixedSteps
from .step import TrainingStep

PROBES = 1_000
"""The number of examples of each size from which the lengths of others are estimated. No run trains on them."""
RESERVE = 1.25
"""If lengths differ, there is room for this many times the hints of the longest probe. Among 4,000 other examples of
each algorithm none had more than 1.2 times as many."""
BUCKETS = 3
"""The number of lengths to which batches of each size are padded, besides the room for the longest."""
WORKERS = 2
"""Threads that make examples in advance."""


class FreshData:
    """A block of new examples for every part of a run, of several sizes in turn, and the training steps on them.

    Attributes:
        steps: the training steps.
    """

    def __init__(self, config: TrainConfig, start: Start) -> None:
        self.config, self.network, self.device = config, start.model, start.device
        seeds, batch_size = len(config.seeds), config.settings.batch_size
        lengths = tuple(sorted(config.protocol.sizes(config.task)))
        self.blocks = Blocks(
            config.task, config.seeds, updates=config.steps_of_part, batch_size=batch_size, lengths=lengths
        )
        probes = self.blocks.probes()
        self.largest = probes[-1]
        buckets = [buckets_of(examples.lengths, seeds * batch_size) for examples in probes]
        count = seeds * batch_size * (config.steps_of_part // len(lengths))
        self.sizes = [
            FreshExamples(start.model, examples, count, max(hints), start.device)
            for examples, hints in zip(probes, buckets, strict=True)
        ]
        first = TrainingStep.of_run(config, start, self.sizes[-1].split)
        self.steps = MixedSteps(
            [first.of_size(size.split, hints) for size, hints in zip(self.sizes, buckets, strict=True)]
        )

    def load(self, part: int, position: int) -> None:
        """Make the examples of a part, and draw its random numbers; its step number `position` is the next one."""
        config, block = self.config, self.blocks.get(part)
        draws = []
        for turn, (examples, size) in enumerate(zip(block.sizes, self.sizes, strict=True)):
            size.replace(examples)
            self.steps.sizes[turn].use(size.split, size.num_hints)
            noise_shape = self.network.noise_shape(size.split.num_nodes)
            teacher_forcing = config.protocol.teacher_forcing
            draws.append(draw_fresh(block, config.seeds, turn, size.num_hints - 1, teacher_forcing, noise_shape))
        self.steps.load(draws, position)

    def head(self, count: int) -> Split:
        """Examples of the largest size, for scoring after training. Stops the making of training examples."""
        self.blocks.close()
        return load_split(self.network, self.largest, self.device).head(count)


class FreshExamples:
    """The examples of one size on the device.

    Attributes:
        split: the examples of the current part.
        num_hints: the number of hints to which they are padded.
    """

    def __init__(self, network: Network, like: Trajectories, count: int, num_hints: int, device: torch.device) -> None:
        self.network, self.device, self.num_hints = network, device, num_hints
        one = load_split(network, like.select(slice(0, 1)), device)

        def room(features: Packed) -> Packed:
            return {key: data.new_zeros(count, *data.shape[1:]) for key, data in features.items()}

        hints = {key: data.new_zeros(num_hints, count, *data.shape[2:]) for key, data in one.hints.items()}
        lengths = np.ones(count, dtype=np.int64)
        self.split = Split(room(one.inputs), hints, room(one.outputs), one.lengths.new_ones(count), lengths)

    def replace(self, examples: Trajectories) -> None:
        """Replace the examples. If one of them has more hints than there is room for, the room is extended."""
        if examples.num_steps > self.num_hints:
            self.num_hints = room_for(examples.lengths)
            hints = {key: data.new_zeros(self.num_hints, *data.shape[1:]) for key, data in self.split.hints.items()}
            self.split = replace(self.split, hints=hints)
        new = load_split(self.network, examples, self.device, waits=False)
        for old, others in ((self.split.inputs, new.inputs), (self.split.outputs, new.outputs)):
            for key, data in others.items():
                old[key].copy_(data)
        for key, data in new.hints.items():
            self.split.hints[key][: len(data)].copy_(data)
            self.split.hints[key][len(data) :].zero_()
        self.split.lengths.copy_(new.lengths)
        self.split = replace(self.split, host_lengths=new.host_lengths)


class Blocks:
    """The blocks of a run by number. As long as they are requested in order, threads make them in advance."""

    def __init__(
        self, task: str, seeds: tuple[int, ...], *, updates: int, batch_size: int, lengths: Sequence[int]
    ) -> None:
        self.task, self.seeds = task, seeds
        self.updates, self.batch_size, self.lengths = updates, batch_size, tuple(lengths)
        self._coming: Generator[TrainingBlock, None, None] | None = None
        self._next = 0

    def get(self, number: int) -> TrainingBlock:
        """Block `number`; waits until it is ready."""
        if self._coming is None or number != self._next:
            self.close()
            self._coming = training_blocks(
                self.task, self.seeds, first_block=number, updates=self.updates, batch_size=self.batch_size,
                lengths=self.lengths, workers=WORKERS,
            )  # fmt: skip
        self._next = number + 1
        return next(self._coming)

    def probes(self) -> tuple[Trajectories, ...]:
        """Examples of each size, which do not depend on the seeds of the run."""
        updates = len(self.lengths)
        return training_block(self.task, (0,), 0, updates=updates, batch_size=PROBES, lengths=self.lengths).sizes

    def close(self) -> None:
        """Stop making blocks."""
        if self._coming is not None:
            self._coming.close()
            self._coming = None


def draw_fresh(
    block: TrainingBlock,
    seeds: tuple[int, ...],
    turn: int,
    num_hint_steps: int,
    teacher_forcing: float,
    noise_shape: tuple[int, ...] | None,
) -> Draw:
    """The examples and the random numbers of the updates of a block on the size number `turn`."""
    updates = range(turn, block.updates, len(block.sizes))
    index = np.stack([block.batch(update)[1] for update in updates])
    shape = len(updates), block.batch_size
    uniform, forced = [], []
    for seed in seeds:
        generator = np.random.Generator(np.random.Philox(key=[seed, 1], counter=[0, 0, turn, block.number]))
        if noise_shape is not None:
            uniform.append(generator.random((*shape, *noise_shape), dtype=np.float32))
        # Steps first and last of all: what is drawn does not depend on how many hints there is room for.
        forced.append((generator.random((num_hint_steps, *shape)) < teacher_forcing).swapaxes(0, 1))
    return Draw(index, np.stack(forced, axis=2), np.stack(uniform, axis=1) if uniform else None)


def buckets_of(lengths: np.ndarray, drawn_together: int) -> list[int]:
    """The numbers of hints to which batches are padded. The last has room for longer examples than these.

    >>> buckets_of(np.array([5, 5, 5]), 80), buckets_of(np.array([4, 6, 8]), 80)
    ([5], [8, 10])
    """
    return sorted({*length_buckets(lengths, drawn_together, most=BUCKETS), room_for(lengths)})


def room_for(lengths: np.ndarray) -> int:
    """The number of hints to make room for, given the numbers of some examples."""
    longest = int(lengths.max())
    return longest if longest == lengths.min() else math.ceil(RESERVE * longest)
