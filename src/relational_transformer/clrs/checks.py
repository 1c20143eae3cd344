"""Checks of arguments. A check returns its argument, or raises a ValueError that says what is wrong."""

import difflib
import operator
import os
from typing import Any, get_args

import numpy as np

from relational_transformer.clrs.algorithms import implementation_of
from relational_transformer.clrs.classes import ALGORITHMS, STRING_MATCHERS
from relational_transformer.clrs.feature import FeatureVersion, ProtocolName

LARGEST_LENGTH = 20_000  # pointers are int16, and some algorithms have more nodes than their length says
LARGEST_SEED = 2**32 - 1
LARGEST_COUNT = 10**12


def check_name(name: str) -> str:
    """An algorithm's name. The error lists all names, and the most similar one."""
    if not isinstance(name, str):
        raise ValueError(f"The name of an algorithm is a string, not {shown(name)}.")
    if name in ALGORITHMS:
        return name
    spelled = name.lower().replace("-", "_").replace(" ", "_")
    nearest = difflib.get_close_matches(spelled, ALGORITHMS, n=1, cutoff=0.5)
    suggestion = f" Did you mean {nearest[0]!r}?" if nearest else ""
    raise ValueError(f"There is no algorithm {shown(name)}.{suggestion} Known are: {', '.join(sorted(ALGORITHMS))}.")


def check_count(count: Any, what: str = "num_samples", smallest: int = 1) -> int:
    """A number of things, as an int."""
    return _whole_number(count, what, smallest, LARGEST_COUNT)


def check_memory(num_samples: int, bytes_of_one: int) -> None:
    """Refuse examples whose inputs alone do not fit this machine's memory; their hints take several times as much."""
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if num_samples * bytes_of_one > available:
        raise ValueError(
            f"The inputs of num_samples={num_samples} examples take {num_samples * bytes_of_one / 2**30:,.0f} GiB, and "
            f"this machine has {available / 2**30:,.0f}. Draw fewer at a time, or use stream."
        )


def check_seed(seed: Any, what: str = "seed") -> int:
    """A seed that numpy's RandomState takes, as an int."""
    return _whole_number(seed, what, smallest=0, largest=LARGEST_SEED)


def check_version(version: FeatureVersion | None, protocol: ProtocolName = "paper") -> FeatureVersion:
    """A version of the features; None for the usual one of the protocol."""
    if version is None:
        return "2.0" if protocol == "modern" else "1.0"
    if protocol == "modern" and version == "1.0":
        raise ValueError("The modern protocol has the features of version '2.0' alone; leave the version out.")
    if not isinstance(version, str) or version not in get_args(FeatureVersion):
        raise ValueError(
            f"The version is {shown(version)}; there are {' and '.join(map(repr, get_args(FeatureVersion)))}."
        )
    return version


def check_protocol(protocol: ProtocolName) -> ProtocolName:
    """The name of a protocol."""
    if not isinstance(protocol, str) or protocol not in get_args(ProtocolName):
        raise ValueError(
            f"The protocol is {shown(protocol)}; there are {' and '.join(map(repr, get_args(ProtocolName)))}."
        )
    return protocol


def check_length(name: str, length: Any, version: FeatureVersion, *, varied: bool = False) -> int:
    """A size of problem that the algorithm can work on, as an int; `varied` as the modern protocol trains."""
    implementation = implementation_of(name)
    shortest = implementation.shortest
    if varied and implementation.shortest_varied is not None:
        shortest = implementation.shortest_varied
    if name in STRING_MATCHERS and version == "1.0":
        shortest -= 1  # what is counted leaves out the short string, of one character then
    return _whole_number(length, f"length for {name}", smallest=shortest, largest=LARGEST_LENGTH)


def _whole_number(value: Any, what: str, smallest: int, largest: int | None = None) -> int:
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError("a truth value is no number")
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"The {what} is {shown(value)}; it must be a whole number.") from None
    if number < smallest:
        raise ValueError(f"The {what} is {shown(number)}; it must be at least {smallest}.")
    if largest is not None and number > largest:
        raise ValueError(f"The {what} is {shown(number)}; it must be at most {largest}.")
    return number


def shown(value: Any) -> str:
    """A value in a few words, for a message."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # repr may fail, for example for an integer of thousands of digits
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 80 else f"a value of type {type(value).__name__}"
