"""By the modern protocol, too, every bit is what dm-clrs 2.0.3 makes: digests of every feature of every batch.

`modern_digests.json` was written with dm-clrs itself. A key is one of

    direct|algorithm|seed|length|examples   the first batch of a training sampler
    test64|algorithm|seed|64|examples       the same with the settings of testing
    run|algorithm|seed|train|k              the k-th training batch of a whole run; `val|k` and `val_count` likewise
"""

import hashlib
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from relational_transformer.clrs import ALGORITHMS, ReferenceRun, Trajectories, sample, spec_of

GOLDEN = json.loads(Path(__file__).with_name("modern_digests.json").read_text())
BATCH_SIZE = 4
RUNS: dict[tuple[str, int], dict[str, object]] = defaultdict(dict)
for key, expected in GOLDEN.items():
    kind, name, seed, *batch = key.split("|")
    if kind == "run":
        RUNS[name, int(seed)]["|".join(batch)] = expected


def digest(array: np.ndarray) -> list:
    # Adding zero makes -0.0 and 0.0 the same.
    values = np.ascontiguousarray(array, dtype=np.float32) + 0.0
    return [list(values.shape), hashlib.sha256(values.tobytes()).hexdigest()[:24]]


def digests(name: str, data: Trajectories) -> dict[str, list]:
    """Digests by feature, in the order of the batch; the keys hold stage, location and type of our spec."""
    spec = spec_of(name, protocol="modern")
    found = {"lengths": digest(data.lengths)}
    for features in (data.inputs, data.hints, data.outputs):
        for feature_name, array in features.items():
            feature = spec[feature_name]
            found[f"{feature.stage}|{feature_name}|{feature.location}|{feature.type}"] = digest(array)
    return found


def assert_same_bits(name: str, data: Trajectories, expected: dict[str, list]) -> None:
    found = digests(name, data)
    assert found == expected
    assert list(found) == list(expected)


def test_all_algorithms_have_digests_of_training_testing_and_two_runs():
    kinds = {(*key.split("|")[:2],) for key in GOLDEN}
    assert kinds == {(kind, name) for kind in ("direct", "test64", "run") for name in ALGORITHMS}
    assert set(RUNS) == {(name, seed) for name in ALGORITHMS for seed in (7, 42)}


@pytest.mark.parametrize("key", [key for key in GOLDEN if not key.startswith("run|")])
def test_samples_have_the_same_bits_as_dm_clrs(key):
    kind, name, seed, length, count = key.split("|")
    data = sample(name, int(count), int(length), int(seed), protocol="modern", training=kind == "direct")
    assert_same_bits(name, data, GOLDEN[key])


@pytest.mark.parametrize(("name", "seed"), RUNS)
def test_runs_have_the_same_bits_as_dm_clrs(name, seed):
    expected = RUNS[name, seed]
    run = ReferenceRun(name, seed, batch_size=BATCH_SIZE)
    training = sorted(key for key in expected if key.startswith("train|"))
    found: dict[str, object] = {"val_count": run.validation_examples}
    # The digests were taken in this order, which the random positions depend on.
    for key in ("val|0", *training, "val|1"):
        batch = run.validation_batch() if key.startswith("val") else run.training_batch()
        found[key] = digests(name, batch)
    assert found == expected
