"""Every bit is what dm-clrs 2.0.3 makes: SHA-256 digests of inputs, outputs, hints and lengths as float32.

`make_golden_digests.py` wrote them, with dm-clrs itself.
"""

import json
from pathlib import Path

import pytest

from relational_transformer.clrs import ALGORITHMS, sample

GOLDEN = json.loads(Path(__file__).with_name("golden_digests.json").read_text())


def parse(key):
    name, *settings = key.split()
    return name, dict(setting.split("=") for setting in settings)


def test_all_algorithms_have_digests_of_three_seeds_and_three_lengths():
    for name in ALGORITHMS:
        settings = [parse(key)[1] for key in GOLDEN if parse(key)[0] == name and "version=1.0" in key]
        assert {(s["length"], s["seed"]) for s in settings} == {(n, k) for n in ("4", "16", "64") for k in "123"}


@pytest.mark.parametrize("key", GOLDEN)
def test_same_bits_as_dm_clrs(key):
    name, settings = parse(key)
    data = sample(
        name, int(settings["examples"]), int(settings["length"]), int(settings["seed"]), version=settings["version"]
    )
    assert data.digest() == GOLDEN[key]
