"""Batches of graphs of like sizes."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import Sampler

from relational_transformer.nn.checks import check_flag, check_size, shown

MOST_GRAPHS = 2**31
LARGEST_SEED = 2**32 - 1


class SizeBucketSampler(Sampler[list[int]]):
    """Batches for `DataLoader(batch_sampler=...)` in which graphs are of like sizes, so that little is padding.

    Graphs are shuffled and taken `bucket_size` batches at a time; those are sorted by size and cut into batches, and
    all batches are shuffled. Every graph is in one batch of an epoch. The order follows from the seed and the epoch.

    Args:
        sizes: the number of nodes of each graph of the data set, in order.
        batch_size: graphs in a batch.
        shuffle: without it the graphs are sorted by size, once for all epochs.
        seed: of the order.
        drop_last: leave out graphs that do not fill a batch.
        bucket_size: batches that are sorted together: more make sizes more alike, fewer make batches more random.

    >>> sampler = SizeBucketSampler([5, 60, 6, 58], batch_size=2)
    >>> sorted(map(sorted, sampler))
    [[0, 2], [1, 3]]
    """

    def __init__(
        self,
        sizes: Sequence[int],
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        bucket_size: int = 50,
    ) -> None:
        check_size(MOST_GRAPHS, batch_size=batch_size, bucket_size=bucket_size)
        check_flag(shuffle=shuffle, drop_last=drop_last)
        check_whole("seed", seed)
        self.sizes = as_sizes(sizes)
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.bucket_size = bucket_size
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """The epoch that comes next: each has an order of its own. It stays until another is set."""
        check_whole("epoch", epoch)
        self.epoch = epoch

    def __len__(self) -> int:
        full, rest = divmod(self.sizes.shape[0], self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        if not self.shuffle:
            batches = self._cut(self.sizes.argsort(stable=True))
        else:
            # A generator reads 32 bits: seed and epoch are mixed, not joined.
            mixed = random.Random(f"{self.seed} {self.epoch}").getrandbits(32)
            generator = torch.Generator().manual_seed(mixed)
            order = torch.randperm(self.sizes.shape[0], generator=generator)
            batches = []
            for bucket in order.split(self.bucket_size * self.batch_size):
                batches += self._cut(bucket[self.sizes[bucket].argsort(stable=True)])
            batches = [batches[number] for number in torch.randperm(len(batches), generator=generator).tolist()]
        yield from batches

    def _cut(self, order: torch.Tensor) -> list[list[int]]:
        batches = [batch.tolist() for batch in order.split(self.batch_size)] if order.shape[0] else []
        return [batch for batch in batches if len(batch) == self.batch_size or not self.drop_last]


def as_sizes(sizes: Any) -> torch.Tensor:
    """Numbers of nodes as a tensor [graphs]."""
    try:
        found = torch.as_tensor(sizes)
    except (TypeError, ValueError, RuntimeError):
        found = torch.empty(0, 0)
    if found.layout != torch.strided or found.is_nested or found.is_quantized or found.is_meta:
        found = torch.empty(0, 0)  # it holds no numbers that can be read
    if found.dim() != 1 or (found.numel() and (found.is_floating_point() or found.is_complex())):
        raise ValueError(f"sizes must be the number of nodes of each graph, got {shown(sizes)}")
    if found.numel() and found.min() < 0:
        raise ValueError(f"sizes must be 0 or more, got {int(found.min())}")
    return found.long().cpu()


def check_whole(name: str, value: Any) -> None:
    """A seed or the number of an epoch."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_SEED:
        raise ValueError(f"{name} must be an integer from 0 to 2^32 - 1, got {shown(value)}")
