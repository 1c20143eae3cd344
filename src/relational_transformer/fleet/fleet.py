"""The parameters of many seeds of one model, side by side, and their optimiser."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from relational_transformer.bounds import LARGEST_SEED, MOST_SEEDS, check_bound

from .pieces import Parameters

Model = TypeVar("Model", bound=nn.Module)

ALIGNMENT = 64
"""The first element of a matrix has an index that is a multiple of this: fast matrix products need addresses that are
multiples of 16 bytes."""


def initialise(build: Callable[[], Model], seed: int) -> Model:
    """A model with the initialisation of `seed`, the same on every machine and device.

    >>> initialise(lambda: nn.Linear(3, 2), seed=1).weight.shape
    torch.Size([2, 3])
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def consecutive_seeds(first: int, count: int) -> tuple[int, ...]:
    """`count` seeds, beginning with `first`. Too large a count is refused before a tuple is made.

    >>> consecutive_seeds(first=5, count=3)
    (5, 6, 7)
    """
    check_bound("seeds", count, 1, MOST_SEEDS)
    check_bound("first-seed", first, 0, LARGEST_SEED - count + 1)
    return tuple(range(first, first + count))


def check_seeds(seeds: tuple[int, ...]) -> None:
    """Refuse an empty list of seeds, too long a list, repeated seeds, and seeds that torch does not accept."""
    if not seeds:
        raise ValueError("at least one seed is needed, got none")
    check_bound("number of seeds", len(seeds), 1, MOST_SEEDS)
    if len(set(seeds)) != len(seeds) or min(seeds) < 0 or max(seeds) > LARGEST_SEED:
        raise ValueError(f"seeds must be different numbers from 0 to 2^63 - 1, got {str(list(seeds))[:80]}")


class Fleet:
    """S seeds of one model and the state of Adam for each of them.

    All parameters lie in one vector, a block [S, *shape] for each, so that the optimiser makes one pass over it. Blocks
    of odd sizes come last, so that all others are aligned.

    >>> fleet = Fleet([initialise(lambda: nn.Linear(3, 2), seed) for seed in (0, 1)], torch.device("cpu"))
    >>> fleet.parameters["weight"].shape, fleet.values.shape
    (torch.Size([2, 2, 3]), torch.Size([16]))

    Attributes:
        values: every parameter of every seed, [S · P].
        first, second: Adam's moments of them.
        count: steps made so far, a scalar tensor on the device.
        parameters: views of `values` by name, [S, *shape].
    """

    def __init__(self, models: Sequence[nn.Module], device: torch.device) -> None:
        self.num_seeds = len(models)
        shapes = {name: parameter.shape for name, parameter in models[0].named_parameters()}
        self.shapes = dict(sorted(shapes.items(), key=lambda item: item[1].numel() % ALIGNMENT != 0))
        named = [dict(model.named_parameters()) for model in models]
        blocks = [torch.stack([one[name].detach().to(device) for one in named]) for name in self.shapes]
        self.values = torch.cat([block.flatten() for block in blocks])
        self.first = torch.zeros_like(self.values)
        self.second = torch.zeros_like(self.values)
        self.count = torch.zeros((), dtype=torch.float64, device=device)
        self.parameters: Parameters = self.split(self.values)

    def leaf(self) -> Tensor:
        """`values` as a leaf to differentiate by. It is a new one every time: autograd ties a leaf to the stream of its
        first use, and a graph is captured on another stream."""
        return self.values.detach().requires_grad_()

    def split(self, vector: Tensor) -> Parameters:
        """Views of a vector like `values` by name, [S, *shape]."""
        blocks = vector.split([self.num_seeds * shape.numel() for shape in self.shapes.values()])
        named = zip(self.shapes.items(), blocks, strict=True)
        return {name: block.view(self.num_seeds, *shape) for (name, shape), block in named}

    def state(self) -> dict[str, Tensor]:
        """Everything that a training step changes."""
        return {"values": self.values, "first": self.first, "second": self.second, "count": self.count}

    def named_state(self, best: Tensor) -> dict[str, Tensor]:
        """The state for a checkpoint, with the `best` parameters: every vector split into tensors `KIND.NAME` [S,
        *shape]."""
        vectors = {"values": self.values, "first": self.first, "second": self.second, "best": best}
        named = {
            f"{kind}.{name}": block for kind, vector in vectors.items() for name, block in self.split(vector).items()
        }
        return {**named, "count": self.count}


@torch.no_grad()
def keep_best(fleet: Fleet, best: Tensor, better: Tensor) -> None:
    """Copy the parameters of the seeds that are `better` (bool [S]) into `best`, a vector like `fleet.values`."""
    for current, kept in zip(fleet.split(fleet.values).values(), fleet.split(best).values(), strict=True):
        kept.copy_(torch.where(better.view(-1, *(1,) * (current.dim() - 1)), current, kept))
