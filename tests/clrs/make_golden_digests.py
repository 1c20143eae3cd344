"""Write golden_digests.json from an installed dm-clrs (2.0.3): `python tests/clrs/make_golden_digests.py`.

A developer's tool: the tests only read the file, and nothing in the package needs dm-clrs.
"""

import json
import warnings
from pathlib import Path

import clrs as dm_clrs  # pyright: ignore[reportMissingImports]

from relational_transformer.clrs import ALGORITHMS, Trajectories, spec_of
from relational_transformer.clrs.classes import STRING_MATCHERS

GOLDEN = Path(__file__).with_name("golden_digests.json")
# length -> examples
SIZES = {4: 5, 16: 4, 64: 2}
SEEDS = (1, 2, 3)


def dm_clrs_sample(name, num_samples, length, seed, version):
    """What dm-clrs makes, in our container; its features and lengths are those of version 2.0."""
    if version == "1.0" and name in STRING_MATCHERS:
        length += max(1, length // 4)
    sampler, _ = dm_clrs.build_sampler(name, num_samples, seed=seed, length=length)
    feedback = sampler.next()
    wanted = spec_of(name, version)

    def arrays(points):
        return {point.name: point.data for point in points if point.name in wanted}

    inputs, hints, lengths = feedback.features
    return Trajectories(arrays(inputs), arrays(hints), arrays(feedback.outputs), lengths)


def main():
    digests = {}
    for name in ALGORITHMS:
        versions = ("1.0", "2.0") if name in (*STRING_MATCHERS, "quickselect") else ("1.0",)
        for version in versions:
            for length, num_samples in SIZES.items():
                for seed in SEEDS:
                    key = f"{name} version={version} length={length} seed={seed} examples={num_samples}"
                    digests[key] = dm_clrs_sample(name, num_samples, length, seed, version).digest()
                    print(key, digests[key][:12], flush=True)
    GOLDEN.write_text(json.dumps(digests, indent=1) + "\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)  # dm-clrs uses numpy's two-dimensional cross product
    main()
