"""A split cut into parts of one shape, by length, for scoring."""

from dataclasses import dataclass

import torch
from torch import Tensor

from relational_transformer.reasoning.features import Packed

from .data import Split


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
