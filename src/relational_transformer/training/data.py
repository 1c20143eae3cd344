"""The data of a protocol: its splits as tensors on the device, and the drawing of batches from them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from relational_transformer.clrs.dataset import MULTIPLIERS, SplitName, canonical, canonical_split
from relational_transformer.clrs.samples.modern import modern_form
from relational_transformer.clrs.samples.sampling import sample
from relational_transformer.clrs.trajectories import Trajectories
from relational_transformer.reasoning.features import Batch, Packed
from relational_transformer.reasoning.network import Network

from .config import Protocol


@dataclass(frozen=True)
class Split:
    """All examples of a split, packed as the network reads them: inputs and outputs [M, ...], hints [T, M, ...]."""

    inputs: Packed
    hints: Packed
    outputs: Packed
    lengths: Tensor
    host_lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.host_lengths)

    @property
    def num_steps(self) -> int:
        """The number of hints of the longest example."""
        return int(self.host_lengths.max())

    @property
    def num_nodes(self) -> int:
        return self.inputs["node_scalar"].shape[1]

    def head(self, count: int) -> "Split":
        """The first examples."""

        def first(features: Packed) -> Packed:
            return {key: data[:count] for key, data in features.items()}

        hints = {key: data[:, :count] for key, data in self.hints.items()}
        return Split(first(self.inputs), hints, first(self.outputs), self.lengths[:count], self.host_lengths[:count])

    @property
    def examples(self) -> Batch:
        """All examples as one batch."""
        return Batch(self.inputs, self.hints, self.outputs, self.lengths)

    def gather(self, index: Tensor, num_hints: int) -> Batch:
        """The examples at `index` [S, B]: inputs and outputs [S, B, ...]; hints [num_hints, S, B, ...]."""
        hints = {key: data[:num_hints] for key, data in self.hints.items()}
        return take(self.examples._replace(hints=hints), index)


def take(examples: Batch, index: Tensor) -> Batch:
    """The examples at `index` [S, B]: inputs and outputs [S, B, ...]; hints [T, S, B, ...]."""
    flat = index.flatten()

    def of(features: Packed, axis: int) -> Packed:
        return {key: data.index_select(axis, flat).unflatten(axis, index.shape) for key, data in features.items()}

    return Batch(of(examples.inputs, 0), of(examples.hints, 1), of(examples.outputs, 0), examples.lengths[index])


def outputs_of(batch: Batch) -> Batch:
    """A batch with only the fields that a loss reads after the last step."""
    return batch._replace(inputs={}, hints={})


def examples_of_test(task: str, protocol: Protocol) -> int:
    """The number of test examples."""
    return max(protocol.evaluation_examples * MULTIPLIERS.get(task, 1), protocol.minimum_evaluation_examples)


def examples_of_validation(task: str, protocol: Protocol) -> int:
    """The number of validation examples."""
    return examples_of_test(
        task, replace(protocol, evaluation_examples=protocol.validation_examples or protocol.evaluation_examples)
    )


def make_split(task: str, split: SplitName, protocol: Protocol) -> Trajectories:
    """The examples of a split of the protocol. Canonical splits come from the cache on disk."""
    count, nodes, seed = {
        "train": (protocol.train_examples, protocol.train_nodes, protocol.train_data_seed),
        "val": (examples_of_validation(task, protocol), protocol.validation_nodes, protocol.validation_data_seed),
        "test": (examples_of_test(task, protocol), protocol.test_nodes, protocol.test_data_seed),
    }[split]
    if protocol.is_modern:
        return _modern_split(task, split, count, protocol.length(task, nodes), seed)
    usual = canonical_split(task, split)
    if (count, nodes, seed) == (usual.num_samples, usual.length, usual.seed):
        return canonical(task, split)
    return sample(task, count, nodes, seed)


def _modern_split(task: str, split: SplitName, count: int, length: int, seed: int) -> Trajectories:
    """A split in the modern form: validation examples like those of training, test examples like the paper's."""
    usual = canonical_split(task, split, count, protocol="modern")
    if (length, seed) == (usual.length, usual.seed):
        return canonical(task, split, num_samples=count, protocol="modern")
    if split == "val":
        return sample(task, count, length, seed, protocol="modern")
    return modern_form(task, sample(task, count, length, seed, version="2.0"))


def load_split(network: Network, trajectories: Trajectories, device: torch.device, *, waits: bool = True) -> Split:
    """Pack a split and move it to the device without widening its dtypes. Without `waits` the copy is asynchronous,
    from pinned memory."""

    def tensor(array: np.ndarray) -> Tensor:
        on_host = torch.from_numpy(np.array(array))
        return on_host.to(device) if waits else to_device(on_host, device)

    def tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
        return {name: tensor(array) for name, array in arrays.items()}

    # int64 lengths everywhere avoid conversions in comparisons.
    lengths = np.asarray(trajectories.lengths, dtype=np.int64)
    batch = network.pack(
        tensors(trajectories.inputs),
        tensors(trajectories.hints),
        tensors(trajectories.outputs),
        tensor(lengths),
    )
    return Split(batch.inputs, batch.hints, batch.outputs, batch.lengths, lengths)


def to_device(data: Tensor, device: torch.device) -> Tensor:
    """A tensor on the device, copied asynchronously."""
    return data.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else data.to(device)


@dataclass(frozen=True)
class Draw:
    """The random numbers of some training steps: the indices of examples [steps, S, B], whether hints are
    teacher-forced [steps, T - 1, S, B], and for outputs that are permutations uniform numbers in [0, 1) [steps, S, B,
    N, N, F], from which `Batch.noise` is computed."""

    index: np.ndarray
    teacher_forced: np.ndarray
    uniform: np.ndarray | None = None


def draw(
    seeds: tuple[int, ...],
    part: int,
    num_steps: int,
    batch_size: int,
    num_examples: int,
    num_hint_steps: int,
    teacher_forcing: float,
) -> Draw:
    """The random numbers of part number `part` of a run. They depend on the seed and the part alone, so a run can be
    resumed anywhere."""
    index, forced = [], []
    for seed in seeds:
        generator = np.random.Generator(np.random.Philox(key=[seed, 0], counter=[0, 0, 0, part]))
        index.append(generator.integers(0, num_examples, size=(num_steps, batch_size)))
        forced.append(generator.random((num_steps, num_hint_steps, batch_size)) < teacher_forcing)
    return Draw(np.stack(index, axis=1), np.stack(forced, axis=2))


def length_buckets(lengths: np.ndarray, drawn_together: int, most: int = 6) -> list[int]:
    """Numbers of hints to pad batches to, so that not every step is padded to the longest example of all.

    The longest of n drawn lengths is at most t with probability F(t)^n; the buckets cut its distribution into equal
    parts.

    >>> length_buckets(np.array([5, 5, 5, 5]), 80)
    [5]
    >>> length_buckets(np.arange(2, 102), 1, most=4)
    [26, 51, 76, 101]
    """
    values, counts = np.unique(lengths, return_counts=True)
    at_most = (np.cumsum(counts) / counts.sum()) ** drawn_together
    quantiles = np.arange(1, most + 1) / most
    chosen = np.searchsorted(at_most, quantiles - 1e-9)
    return sorted({int(values[min(k, len(values) - 1)]) for k in chosen})
