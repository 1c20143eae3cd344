"""The benchmark's own splits, from a cache on disk: `canonical(name, split)`."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from relational_transformer.clrs.checks import STRING_MATCHERS, check_count, check_name, check_version, shown
from relational_transformer.clrs.feature import FeatureVersion
from relational_transformer.clrs.sampling import sample
from relational_transformer.clrs.storage import DamagedFileError, load, save
from relational_transformer.clrs.trajectories import Trajectories

SplitName = Literal["train", "val", "test"]

CACHE_VARIABLE = "RT_CACHE"

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

# Where an example's output says little, there are more examples to validate and test on.
MULTIPLIERS: dict[str, int] = {
    "find_maximum_subarray_kadane": 32,
    "quickselect": 64,
    "minimum": 64,
    "binary_search": 64,
    "naive_string_matcher": 64,
    "kmp_matcher": 64,
    "segments_intersect": 64,
}


def canonical_split(name: str, split: SplitName, num_samples: int | None = None) -> Split:
    """What a split of an algorithm consists of; `num_samples` replaces its usual number of examples."""
    check_name(name)
    if not isinstance(split, str) or split not in SPLITS:
        raise ValueError(f"There is no split {shown(split)}; the splits are {', '.join(SPLITS)}.")
    usual = SPLITS[split]
    count = usual.num_samples if split == "train" else usual.num_samples * MULTIPLIERS.get(name, 1)
    return Split(count if num_samples is None else check_count(num_samples), usual.length, usual.seed)


def canonical(
    name: str,
    split: SplitName,
    *,
    num_samples: int | None = None,
    version: FeatureVersion = "1.0",
    cache: Path | str | None = None,
) -> Trajectories:
    """A canonical split of an algorithm, made once and from then on mapped into memory from the cache (read only).

    Args:
        name: one of `ALGORITHMS`.
        split: "train" (10,000 examples of length 16), "val" (32 times the algorithm's multiplier, of length 16) or
            "test" (as many, of length 64).
        num_samples: another number of examples of the same seed; 1,000 for dm-clrs' own training set.
        version: features of dm-clrs "1.0", as in the paper, or "2.0"; the examples are the same.
        cache: folder to keep files in; by default $RT_CACHE, or else ~/.cache/relational_transformer.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     validation = canonical("bfs", "val", cache=folder)
    >>> len(validation), validation.num_nodes
    (32, 16)
    """
    path = canonical_path(name, split, num_samples=num_samples, version=version, cache=cache)
    wanted = canonical_split(name, split, num_samples)
    length = wanted.length
    if name in STRING_MATCHERS and version == "2.0":
        length += length // 4  # 2.0 counts both strings
    request = {
        "algorithm": name,
        "num_samples": wanted.num_samples,
        "length": length,
        "seed": wanted.seed,
        "version": version,
    }
    if path.exists():
        try:
            return load(path, request)
        except DamagedFileError as error:
            log.warning("Making %s again: %s.", path, error)
    save(path, sample(name, wanted.num_samples, length, wanted.seed, version=version), request)
    return load(path, request)


def canonical_path(
    name: str,
    split: SplitName,
    *,
    num_samples: int | None = None,
    version: FeatureVersion = "1.0",
    cache: Path | str | None = None,
) -> Path:
    """Where `canonical` keeps a split."""
    count = canonical_split(name, split, num_samples).num_samples
    return cache_folder(cache) / "clrs" / f"{name}-{split}-{count}-v{check_version(version)}.clrs"


def cache_folder(cache: Path | str | None = None) -> Path:
    """The folder given, or the one in the environment, or the user's cache."""
    if cache is None:
        cache = os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "relational_transformer"
    if not isinstance(cache, str | Path) or "\0" in str(cache):
        raise ValueError(f"The cache is {shown(cache)}; it must be the name of a folder.")
    return Path(cache).expanduser()
