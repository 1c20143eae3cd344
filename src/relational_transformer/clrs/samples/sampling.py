"""Examples on demand: `sample(name, num_samples, length, seed)`."""

from collections.abc import Sequence

import numpy as np

from relational_transformer.clrs.algorithms import implementation_of
from relational_transformer.clrs.checks import (
    check_count,
    check_length,
    check_memory,
    check_name,
    check_protocol,
    check_seed,
    check_version,
)
from relational_transformer.clrs.classes import STRING_MATCHERS
from relational_transformer.clrs.feature import FeatureVersion, ProtocolName, Spec, Stage
from relational_transformer.clrs.samples.modern import modern_form
from relational_transformer.clrs.samples.random import open_stream
from relational_transformer.clrs.spec import spec_of
from relational_transformer.clrs.tracing import HintRecorder, allocate
from relational_transformer.clrs.trajectories import Arrays, Trajectories

# Examples are drawn and traced in batches of about this size.
BATCH_BYTES = 4 * 2**20


def sample(
    name: str,
    num_samples: int,
    length: int,
    seed: int,
    *,
    version: FeatureVersion | None = None,
    protocol: ProtocolName = "paper",
    training: bool = True,
) -> Trajectories:
    """Draw examples of an algorithm and trace it on each: the same bits as dm-clrs makes of the same seed.

    Args:
        name: one of `ALGORITHMS`.
        num_samples: the number of examples, B.
        length: size of the problem. Mostly the number of nodes N; optimal_bst has one node more, segments_intersect
            always four, and for the string matchers it counts the long string alone (version "2.0" and the modern
            protocol: both strings).
        seed: 0 .. 2^32 - 1. The first examples of a seed do not depend on `num_samples`.
        version: features of dm-clrs "1.0", as in the paper and by default, or "2.0", as in the modern protocol.
        protocol: "paper", or "modern": random positions, more varied graphs and strings, predecessors as an input,
            permutations. Then `seed` is that of a whole run, from which dm-clrs draws the seed of the examples first.
        training: whether the modern protocol draws as in training and validation, or as in testing: with even
            positions, and graphs and strings like the paper's. With the paper's protocol this makes no difference.

    >>> data = sample("bellman_ford", num_samples=2, length=6, seed=3)
    >>> data.inputs["A"].shape, data.hints["pi_h"].shape, data.outputs["pi"].tolist()
    ((2, 6, 6), (6, 2, 6), [[4, 1, 5, 3, 4, 0], [1, 5, 4, 0, 3, 5]])
    >>> data = sample("bubble_sort", num_samples=2, length=6, seed=3, protocol="modern")
    >>> data.outputs["pred"].shape, data.outputs["pred_mask"].shape
    ((2, 6, 6), (2, 6))
    """
    check_name(name)
    num_samples = check_count(num_samples)
    seed = check_seed(seed)
    protocol = check_protocol(protocol)
    version = check_version(version, protocol)
    if protocol == "modern":
        return modern_sample(name, num_samples, length, (seed,), training=training)
    length = _total_length(name, check_length(name, length, version), version)
    return trace(name, num_samples, length, [open_stream(seed)], spec_of(name, version))


def modern_sample(
    name: str, num_samples: int, length: int, seeds: Sequence[int], *, training: bool = True
) -> Trajectories:
    """Examples of the modern protocol, `num_samples` of every seed, one seed after the other."""
    length = check_length(name, length, "2.0", varied=training)
    masters = [np.random.RandomState(seed) for seed in seeds]
    streams = [open_stream(master.randint(2**32)) for master in masters]
    data = trace(name, num_samples, length, streams, spec_of(name, "2.0"), varied=training)
    positions = None
    if training:
        positions = np.concatenate([master.uniform(size=(num_samples, data.num_nodes)) for master in masters])
    return modern_form(name, data, positions)


def trace(
    name: str, num_samples: int, length: int, streams: Sequence[np.ndarray], spec: Spec, *, varied: bool = False
) -> Trajectories:
    """Draw the next `num_samples` examples of every stream and trace the algorithm on them, one stream after the other.

    `length` counts both strings; of the hints, only those in `spec` are kept.
    """
    implementation = implementation_of(name)
    draw = (implementation.draw_varied if varied else None) or implementation.draw
    one = draw(open_stream(0), 1, length)
    batch = max(1, BATCH_BYTES // sum(array.nbytes for array in one))
    features_of_one = implementation.features(one)
    num_nodes = features_of_one["pos"].shape[1]

    total = num_samples * len(streams)
    check_memory(total, sum(array.nbytes for array in features_of_one.values()))
    traced = spec_of(name, "2.0")  # what the traces write; what was not asked for is left out at the end
    inputs = allocate(traced, Stage.INPUT, (total,), num_nodes)
    outputs = allocate(traced, Stage.OUTPUT, (total,), num_nodes)
    recorder = HintRecorder(name, traced, total, num_nodes)

    for number, stream in enumerate(streams):
        start, end = number * num_samples, (number + 1) * num_samples
        for first in range(start, end, batch):
            last = min(first + batch, end)
            drawn = draw(stream, last - first, length)
            for feature, values in implementation.features(drawn).items():
                inputs[feature][first:last] = values
            recorder.record(drawn, {feature: array[first:last] for feature, array in outputs.items()}, first)

    return Trajectories(inputs, _only(recorder.hints, spec), outputs, recorder.lengths)


def _total_length(name: str, length: int, version: FeatureVersion) -> int:
    """The length that `draw` takes: for the string matchers, the characters of both strings."""
    if name in STRING_MATCHERS and version == "1.0":
        return length + max(1, length // 4)
    return length


def _only(hints: Arrays, spec: Spec) -> Arrays:
    return {name: array for name, array in hints.items() if name in spec}
