"""Mean errors of a fleet on a split, in bounded memory, without waiting for the device."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from relational_transformer.fleet.pieces import Parameters
from relational_transformer.fleet.precision import Precision, for_computing

from .split import Split
from .stack import FleetStack

NODES_PER_BUCKET = 32
"""By default: large graphs are of many sizes, and every bucket is another layer to compile."""
PAIRS_AT_ONCE = {"cuda": 2_000_000, "cpu": 200_000}
"""Pairs of nodes of all seeds in one chunk: enough to fill the device, few enough for its memory."""


class Evaluator:
    """The mean over a split of an error of predictions and targets, for every seed.

    Graphs are sorted into buckets of similar size and cut into chunks of one shape. So small graphs are not padded to
    the largest, and a compiled layer sees few shapes. If one graph is too large for all seeds at once, some seeds are
    evaluated after the others.

    Args:
        error: of predictions [S, B] in float64 and targets [B], for each graph.
        nodes_per_bucket: graphs are padded to multiples of it.
    """

    def __init__(
        self, stack: FleetStack, split: Split, num_seeds: int, precision: Precision,
        error: Callable[[Tensor, Tensor], Tensor], nodes_per_bucket: int = NODES_PER_BUCKET,
    ) -> None:  # fmt: skip
        self.stack, self.split, self.num_seeds, self.error = stack, split, num_seeds, error
        self.precision: Precision = precision
        limit = PAIRS_AT_ONCE[split.device.type]
        self.seeds_at_once = max(1, min(num_seeds, limit // int(split.host_num_nodes.max()) ** 2))
        self.chunks = [
            (num_nodes, torch.from_numpy(index).to(split.device), torch.from_numpy(counts).to(split.device))
            for num_nodes, index, counts in chunks_of(
                split.host_num_nodes, limit // self.seeds_at_once, nodes_per_bucket
            )
        ]

    @torch.no_grad()
    def mean_errors(self, parameters: Parameters) -> Tensor:
        """The mean error of every seed, float64 [S]; parameters [S, *shape] by name."""
        return torch.cat(
            [
                self._of_some({name: values[start : start + self.seeds_at_once] for name, values in parameters.items()})
                for start in range(0, self.num_seeds, self.seeds_at_once)
            ]
        )

    def _of_some(self, parameters: Parameters) -> Tensor:
        parameters = {name: for_computing(values, self.precision) for name, values in parameters.items()}
        seeds = len(next(iter(parameters.values())))
        total = torch.zeros(seeds, dtype=torch.float64, device=self.split.device)
        for num_nodes, index, counts in self.chunks:
            graphs, targets = self.split.gather(index, num_nodes)
            of_all = type(graphs)(*(tensor.expand(seeds, *tensor.shape) for tensor in graphs))
            errors = self.error(self.stack(parameters, of_all).double(), targets)  # [S, B]
            total += errors.masked_fill(~counts, 0.0).sum(-1)
        return total / len(self.split)


def chunks_of(
    sizes: np.ndarray, most_pairs: int, nodes_per_bucket: int = NODES_PER_BUCKET
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Chunks of graphs with these numbers of nodes: the nodes to pad to, the graphs [B], and which of them count [B].

    All chunks of a bucket have the same B. The last one is padded with a graph that does not count again.

    >>> for num_nodes, index, counts in chunks_of(np.array([5, 40, 7, 9]), most_pairs=2 * 32**2):
    ...     print(num_nodes, index, counts)
    32 [0 2] [ True  True]
    32 [3 3] [ True False]
    64 [1] [ True]
    """
    padded = -(-sizes // nodes_per_bucket) * nodes_per_bucket
    for num_nodes in np.unique(padded).tolist():
        members = np.flatnonzero(padded == num_nodes)
        count = min(len(members), max(1, most_pairs // num_nodes**2))
        for start in range(0, len(members), count):
            index = members[start : start + count]
            missing = count - len(index)
            yield num_nodes, np.pad(index, (0, missing), mode="edge"), np.arange(count) < len(index)
