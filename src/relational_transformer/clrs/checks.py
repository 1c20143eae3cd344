"""Is what was asked for possible? A check gives back what it was given, or raises a ValueError that says why not."""

import difflib
import operator
from typing import Any, get_args

import numpy as np

from relational_transformer.clrs.algorithms import IMPLEMENTATIONS
from relational_transformer.clrs.classes import ALGORITHMS
from relational_transformer.clrs.feature import FeatureVersion

STRING_MATCHERS = ("naive_string_matcher", "kmp_matcher")
LARGEST_LENGTH = 20_000  # pointers are int16, and some algorithms have more nodes than their length says
LARGEST_SEED = 2**32 - 1


def check_name(name: str) -> str:
    """An algorithm's name. The error lists all of them, and the one most like what was given."""
    if name in ALGORITHMS:
        return name
    spelled = str(name).lower().replace("-", "_").replace(" ", "_")
    nearest = difflib.get_close_matches(spelled, ALGORITHMS, n=1, cutoff=0.5)
    suggestion = f" Did you mean {nearest[0]!r}?" if nearest else ""
    raise ValueError(f"There is no algorithm {name!r}.{suggestion} Known are: {', '.join(sorted(ALGORITHMS))}.")


def check_count(count: Any, what: str = "num_samples", smallest: int = 1) -> int:
    """A number of things, as an int."""
    return _whole_number(count, what, smallest)


def check_seed(seed: Any, what: str = "seed") -> int:
    """A seed that numpy's RandomState takes, as an int."""
    return _whole_number(seed, what, smallest=0, largest=LARGEST_SEED)


def check_version(version: FeatureVersion) -> FeatureVersion:
    """A version of the features."""
    if version not in get_args(FeatureVersion):
        raise ValueError(f"The version is {version!r}; there are {' and '.join(map(repr, get_args(FeatureVersion)))}.")
    return version


def check_length(name: str, length: Any, version: FeatureVersion) -> int:
    """A size of problem that the algorithm can work on, as an int."""
    shortest = IMPLEMENTATIONS[name].shortest
    if name in STRING_MATCHERS and version == "1.0":
        shortest -= 1  # what is counted leaves out the short string, of one character then
    return _whole_number(length, f"length for {name}", smallest=shortest, largest=LARGEST_LENGTH)


def _whole_number(value: Any, what: str, smallest: int, largest: int | None = None) -> int:
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError("a truth value is no number")
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"The {what} is {value!r}; it must be a whole number.") from None
    if number < smallest:
        raise ValueError(f"The {what} is {number}; it must be at least {smallest}.")
    if largest is not None and number > largest:
        raise ValueError(f"The {what} is {number}; it must be at most {largest}.")
    return number
