"""The data of a protocol."""

from relational_transformer.clrs.dataset import MULTIPLIERS, SplitName, canonical, canonical_split
from relational_transformer.clrs.sampling import sample
from relational_transformer.clrs.trajectories import Trajectories

from .protocol import Protocol


def make_split(task: str, split: SplitName, protocol: Protocol) -> Trajectories:
    """The examples of a split, as the protocol describes them. What is canonical comes from the cache on disk."""
    evaluation = max(protocol.evaluation_examples * MULTIPLIERS.get(task, 1), protocol.minimum_evaluation_examples)
    count, nodes, seed = {
        "train": (protocol.train_examples, protocol.train_nodes, protocol.train_data_seed),
        "val": (evaluation, protocol.validation_nodes, protocol.validation_data_seed),
        "test": (evaluation, protocol.test_nodes, protocol.test_data_seed),
    }[split]
    usual = canonical_split(task, split)
    if (count, nodes, seed) == (usual.num_samples, usual.length, usual.seed):
        return canonical(task, split)
    return sample(task, count, nodes, seed)
