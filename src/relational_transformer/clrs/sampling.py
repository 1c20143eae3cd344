"""Examples on demand: `sample(name, num_samples, length, seed)`."""

from relational_transformer.clrs.algorithms import IMPLEMENTATIONS
from relational_transformer.clrs.checks import (
    STRING_MATCHERS,
    check_count,
    check_length,
    check_memory,
    check_name,
    check_seed,
    check_version,
)
from relational_transformer.clrs.feature import FeatureVersion, Spec, Stage
from relational_transformer.clrs.random import open_stream
from relational_transformer.clrs.spec import spec_of
from relational_transformer.clrs.tracing import HintRecorder, allocate
from relational_transformer.clrs.trajectories import Arrays, Trajectories

# Examples are drawn and traced in batches of about this size.
BATCH_BYTES = 4 * 2**20


def sample(name: str, num_samples: int, length: int, seed: int, *, version: FeatureVersion = "1.0") -> Trajectories:
    """Draw examples of an algorithm and trace it on each: the same bits as dm-clrs makes of the same seed.

    Args:
        name: one of `ALGORITHMS`.
        num_samples: how many examples, B.
        length: size of the problem. Mostly the number of nodes N; optimal_bst has one node more, segments_intersect
            always four, and for the string matchers it counts the long string alone (version "2.0": both strings).
        seed: 0 .. 2^32 - 1. The first examples of a seed are the same however many are drawn.
        version: features of dm-clrs "1.0", as in the paper, or "2.0".

    >>> data = sample("bellman_ford", num_samples=2, length=6, seed=3)
    >>> data.inputs["A"].shape, data.hints["pi_h"].shape, data.outputs["pi"].tolist()
    ((2, 6, 6), (6, 2, 6), [[4, 1, 5, 3, 4, 0], [1, 5, 4, 0, 3, 5]])
    """
    check_name(name)
    num_samples = check_count(num_samples)
    seed = check_seed(seed)
    version = check_version(version)
    length = _total_length(name, check_length(name, length, version), version)

    implementation = IMPLEMENTATIONS[name]
    one = implementation.draw(open_stream(0), 1, length)
    batch = max(1, BATCH_BYTES // sum(array.nbytes for array in one))
    num_nodes = implementation.features(one)["pos"].shape[1]

    check_memory(num_samples, sum(array.nbytes for array in implementation.features(one).values()))
    spec = spec_of(name, version="2.0")  # what the traces write; what was not asked for is left out at the end
    inputs = allocate(spec, Stage.INPUT, (num_samples,), num_nodes)
    outputs = allocate(spec, Stage.OUTPUT, (num_samples,), num_nodes)
    recorder = HintRecorder(name, spec, num_samples, num_nodes)

    stream = open_stream(seed)
    for first in range(0, num_samples, batch):
        last = min(first + batch, num_samples)
        drawn = implementation.draw(stream, last - first, length)
        for feature, values in implementation.features(drawn).items():
            inputs[feature][first:last] = values
        recorder.record(drawn, {feature: array[first:last] for feature, array in outputs.items()}, first)

    return Trajectories(inputs, _only(recorder.hints, spec_of(name, version)), outputs, recorder.lengths)


def _total_length(name: str, length: int, version: FeatureVersion) -> int:
    """What `draw` takes for a length: for the string matchers, the characters of both strings together."""
    if name in STRING_MATCHERS and version == "1.0":
        return length + max(1, length // 4)
    return length


def _only(hints: Arrays, spec: Spec) -> Arrays:
    return {name: array for name, array in hints.items() if name in spec}
