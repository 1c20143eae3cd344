"""The benchmark's own splits, from a cache on disk: `canonical(name, split)`."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from relational_transformer.clrs.checks import check_count, check_name, check_protocol, check_version, shown
from relational_transformer.clrs.classes import STRING_MATCHERS
from relational_transformer.clrs.feature import FeatureVersion, ProtocolName
from relational_transformer.clrs.samples.modern import modern_form
from relational_transformer.clrs.samples.sampling import sample
from relational_transformer.clrs.storage import DamagedFileError, load, save
from relational_transformer.clrs.trajectories import Trajectories
from relational_transformer.files import cache_folder

SplitName = Literal["train", "val", "test"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Split:
    """Examples, length and seed of a canonical split."""

    num_samples: int
    length: int
    seed: int


# dm-clrs trains on 1,000 examples; the paper on 10,000 of the same seed.
SPLITS: dict[SplitName, Split] = {
    "train": Split(num_samples=10_000, length=16, seed=1),
    "val": Split(num_samples=32, length=16, seed=2),
    "test": Split(num_samples=32, length=64, seed=3),
}

# The modern protocol trains on fresh examples. It is tested on the same examples as the paper's.
MODERN_SPLITS: dict[SplitName, Split] = {
    "val": Split(num_samples=64, length=16, seed=2),
    "test": SPLITS["test"],
}

# Algorithms with small outputs have more examples for validation and test.
MULTIPLIERS: dict[str, int] = {
    "find_maximum_subarray_kadane": 32,
    "quickselect": 64,
    "minimum": 64,
    "binary_search": 64,
    "naive_string_matcher": 64,
    "kmp_matcher": 64,
    "segments_intersect": 64,
}


def canonical_split(
    name: str, split: SplitName, num_samples: int | None = None, *, protocol: ProtocolName = "paper"
) -> Split:
    """The canonical split of an algorithm; `num_samples` replaces its usual number of examples."""
    check_name(name)
    splits = MODERN_SPLITS if check_protocol(protocol) == "modern" else SPLITS
    if not isinstance(split, str) or split not in SPLITS:
        raise ValueError(f"There is no split {shown(split)}; the splits are {', '.join(splits)}.")
    if split not in splits:
        raise ValueError("The modern protocol has no training set: it trains on fresh examples, see training_blocks.")
    usual = splits[split]
    count = usual.num_samples if split == "train" else usual.num_samples * MULTIPLIERS.get(name, 1)
    length = usual.length
    if protocol == "modern" and name in STRING_MATCHERS:
        length += length // 4  # both strings
    return Split(count if num_samples is None else check_count(num_samples), length, usual.seed)


def canonical(
    name: str,
    split: SplitName,
    *,
    num_samples: int | None = None,
    version: FeatureVersion | None = None,
    protocol: ProtocolName = "paper",
    cache: Path | str | None = None,
) -> Trajectories:
    """A canonical split of an algorithm. It is made once and then mapped into memory from the cache, read only.

    Args:
        name: one of `ALGORITHMS`.
        split: "train" (10,000 examples of length 16), "val" (32 times the algorithm's multiplier, of length 16) or
            "test" (as many, of length 64). The modern protocol has no "train"; its "val" has twice as many examples,
            drawn as in training, and its "test" has the same examples in the modern form. Strings have 20 and 80
            characters.
        num_samples: another number of examples of the same seed; 1,000 for dm-clrs' own training set.
        version: features of dm-clrs "1.0", as in the paper, or "2.0"; the examples are the same.
        protocol: "paper" or "modern".
        cache: folder to keep files in; by default $RT_CACHE, or else ~/.cache/relational_transformer.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     validation = canonical("bfs", "val", cache=folder)
    >>> len(validation), validation.num_nodes
    (32, 16)
    """
    path = canonical_path(name, split, num_samples=num_samples, version=version, protocol=protocol, cache=cache)
    version = check_version(version, protocol)
    wanted = canonical_split(name, split, num_samples, protocol=protocol)
    length = wanted.length
    if name in STRING_MATCHERS and version == "2.0" and protocol == "paper":
        length += length // 4  # 2.0 counts both strings
    request = {
        "algorithm": name,
        "num_samples": wanted.num_samples,
        "length": length,
        "seed": wanted.seed,
        "version": version,
    }
    if protocol == "modern":
        request["protocol"] = protocol
    if path.exists():
        try:
            return load(path, request)
        except DamagedFileError as error:
            log.warning("Making %s again: %s.", path, error)
    if protocol == "paper":
        data = sample(name, wanted.num_samples, length, wanted.seed, version=version)
    elif split == "val":
        data = sample(name, wanted.num_samples, length, wanted.seed, protocol=protocol)
    else:  # the paper's examples
        data = modern_form(name, sample(name, wanted.num_samples, length, wanted.seed, version=version))
    save(path, data, request)
    return load(path, request)


def canonical_path(
    name: str,
    split: SplitName,
    *,
    num_samples: int | None = None,
    version: FeatureVersion | None = None,
    protocol: ProtocolName = "paper",
    cache: Path | str | None = None,
) -> Path:
    """The file in which `canonical` keeps a split."""
    count = canonical_split(name, split, num_samples, protocol=protocol).num_samples
    version = check_version(version, protocol)
    kind = protocol if protocol == "modern" else f"v{version}"
    return cache_folder(cache) / "clrs" / f"{name}-{split}-{count}-{kind}.clrs"
