"""Examples on demand: `sample(name, num_samples, length, seed)`."""

import difflib
import operator
from typing import Any

from relational_transformer.clrs.algorithms import IMPLEMENTATIONS
from relational_transformer.clrs.classes import ALGORITHMS
from relational_transformer.clrs.feature import FeatureVersion, Spec, Stage
from relational_transformer.clrs.random import open_stream
from relational_transformer.clrs.spec import spec_of
from relational_transformer.clrs.tracing import HintRecorder, allocate
from relational_transformer.clrs.trajectories import Arrays, Trajectories

STRING_MATCHERS = ("naive_string_matcher", "kmp_matcher")
LARGEST_LENGTH = 20_000  # pointers are int16, and some algorithms have more nodes than their length says
LARGEST_SEED = 2**32 - 1
BATCH_BYTES = 4 * 2**20


def sample(name: str, num_samples: int, length: int, seed: int, *, version: FeatureVersion = "1.0") -> Trajectories:
    """Draw examples of an algorithm and trace it on each: the same bits as dm-clrs makes of the same seed.

    Args:
        name: one of `ALGORITHMS`.
        num_samples: how many examples, B.
        length: size of the problem. Mostly the number of nodes N; optimal_bst has one node more, segments_intersect
        always
            four, and for the string matchers it counts the long string alone (version "2.0": both strings).
        seed: 0 .. 2^32 - 1. The first examples of a seed are the same however many are drawn.
        version: features of dm-clrs "1.0", as in the paper, or "2.0".
    """
    check_name(name)
    num_samples = _whole_number(num_samples, "num_samples", smallest=1)
    seed = _whole_number(seed, "seed", smallest=0, largest=LARGEST_SEED)
    if version not in ("1.0", "2.0"):
        raise ValueError(f"version is {version!r}; the feature versions are '1.0' and '2.0'.")
    length = _total_length(name, length, version)

    implementation = IMPLEMENTATIONS[name]
    stream = open_stream(seed)
    spec = spec_of(name, version="2.0")
    drawn = implementation.draw(stream, 1, length)
    num_nodes = implementation.features(drawn)["pos"].shape[1]
    inputs = allocate(spec, Stage.INPUT, (num_samples,), num_nodes)
    outputs = allocate(spec, Stage.OUTPUT, (num_samples,), num_nodes)
    recorder = HintRecorder(name, spec, num_samples, num_nodes)

    batch = max(1, BATCH_BYTES // sum(array.nbytes for array in drawn))
    first = 0
    while first < num_samples:
        last = first + len(drawn[0])
        for feature, values in implementation.features(drawn).items():
            inputs[feature][first:last] = values
        recorder.record(drawn, {feature: array[first:last] for feature, array in outputs.items()}, first)
        first = last
        drawn = implementation.draw(stream, min(batch, num_samples - first), length)

    return Trajectories(inputs, _only(recorder.hints, spec_of(name, version)), outputs, recorder.lengths)


def check_name(name: str) -> None:
    """Raise a ValueError that lists the algorithms, the nearest name first, unless `name` is one of them."""
    if name in ALGORITHMS:
        return
    nearest = difflib.get_close_matches(
        str(name).lower().replace("-", "_").replace(" ", "_"), ALGORITHMS, n=1, cutoff=0.5
    )
    suggestion = f" Did you mean {nearest[0]!r}?" if nearest else ""
    raise ValueError(f"There is no algorithm {name!r}.{suggestion} Known are: {', '.join(sorted(ALGORITHMS))}.")


def _only(hints: Arrays, spec: Spec) -> Arrays:
    return {name: array for name, array in hints.items() if name in spec}


def _total_length(name: str, length: int, version: FeatureVersion) -> int:
    """What `draw` takes for a length: for the string matchers, the characters of both strings together."""
    shortest = IMPLEMENTATIONS[name].shortest
    if name in STRING_MATCHERS and version == "1.0":
        length = _whole_number(length, f"length of {name}", smallest=shortest - 1, largest=LARGEST_LENGTH)
        return length + max(1, length // 4)
    return _whole_number(length, f"length of {name}", smallest=shortest, largest=LARGEST_LENGTH)


def _whole_number(value: Any, what: str, smallest: int, largest: int | None = None) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"The {what} is {value!r}; it must be a whole number.") from None
    if number < smallest:
        raise ValueError(f"The {what} is {number}; it must be at least {smallest}.")
    if largest is not None and number > largest:
        raise ValueError(f"The {what} is {number}; it must be at most {largest}.")
    return number
