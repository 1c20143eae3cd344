"""All random numbers of a run, drawn beforehand by a counter-based generator, so that a run can be resumed anywhere."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .game.size_classes import SizeClass

PLAYING, STARTING, TESTING = 0, 1, 2


class Draw(NamedTuple):
    """The random numbers of some updates: one in [0, 1) for every action, and the next level for a game that ends; both
    [updates, window, S, games]."""

    uniform: Tensor
    next_level: Tensor


def draw(seeds: tuple[int, ...], part: int, updates: int, window: int, classes: Sequence[SizeClass]) -> Draw:
    """The random numbers of part number `part` of a run. They depend on the seed and the part alone."""
    shape = (updates, window, sum(one.num_games for one in classes))
    generators = [_generator(seed, PLAYING, part) for seed in seeds]
    return Draw(
        _stack(generators, lambda generator: generator.random(shape, dtype=np.float32), axis=2),
        _stack(generators, lambda generator: _levels(generator, classes, shape[:2]), axis=2),
    )


def first_levels(seeds: tuple[int, ...], classes: Sequence[SizeClass]) -> Tensor:
    """The levels that the games begin with, [S, games]."""
    generators = [_generator(seed, STARTING, 0) for seed in seeds]
    return _stack(generators, lambda generator: _levels(generator, classes, ()), axis=0)


def test_noise(seed: int, steps: int, num_levels: int) -> Tensor:
    """Numbers in [0, 1) for the actions of a test on every level, [steps, num_levels]."""
    return torch.from_numpy(_generator(seed, TESTING, 0).random((steps, num_levels), dtype=np.float32))


def sample(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """Sample actions by their cumulative probabilities: probabilities [..., A], uniform [...] -> [...].

    >>> sample(torch.tensor([[0.2, 0.0, 0.8], [0.2, 0.0, 0.8]]), torch.tensor([0.1, 0.2])).tolist()
    [0, 2]
    """
    passed = (probabilities.cumsum(-1) <= uniform.unsqueeze(-1)).sum(-1)
    return passed.clamp(max=probabilities.shape[-1] - 1)  # the sum may fall short of 1 by rounding


def _generator(seed: int, purpose: int, part: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed, purpose], counter=[0, 0, 0, part]))


def _levels(generator: np.random.Generator, classes: Sequence[SizeClass], shape: tuple[int, ...]) -> np.ndarray:
    """A random level of its class for every game, [*shape, games]."""
    drawn = [
        one.levels.numpy()[generator.integers(0, len(one.levels), size=(*shape, one.num_games))] for one in classes
    ]
    return np.concatenate(drawn, axis=-1)


def _stack(
    generators: list[np.random.Generator], make: Callable[[np.random.Generator], np.ndarray], axis: int
) -> Tensor:
    return torch.from_numpy(np.stack([make(generator) for generator in generators], axis=axis))
