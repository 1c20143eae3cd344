"""The data of a protocol."""

from typing import Literal

from relational_transformer.clrs.sampling import sample
from relational_transformer.clrs.trajectories import Trajectories

from .protocol import Protocol

MULTIPLIERS = {"find_maximum_subarray_kadane": 32, **dict.fromkeys(("quickselect", "minimum", "binary_search", "naive_string_matcher", "kmp_matcher", "segments_intersect"), 64)}
SplitName = Literal["train", "val", "test"]


def make_split(task: str, split: SplitName, protocol: Protocol) -> Trajectories:
    """The examples of a split, as the protocol describes them. What is canonical comes from the cache on disk."""
    evaluation = max(
        protocol.evaluation_examples * MULTIPLIERS.get(task, 1), protocol.minimum_evaluation_examples
    )
    count, nodes, seed = {
        "train": (protocol.train_examples, protocol.train_nodes, protocol.train_data_seed),
        "val": (evaluation, protocol.validation_nodes, protocol.validation_data_seed),
        "test": (evaluation, protocol.test_nodes, protocol.test_data_seed),
    }[split]
    return sample(task, count, nodes, seed)
