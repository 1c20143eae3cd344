"""The types of the records that a run writes, which are checked when they are read; and the checksum of a result."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict


class MetricsRow(TypedDict):
    """A line of `metrics.jsonl`: one validation, with a number for every seed."""

    examples: int
    loss: list[float | None]
    validation: list[float | None]


class SeedRow(TypedDict):
    """The scores of one seed in a result, in the units of its task; None where there is no score."""

    seed: int
    failed: bool
    test: float | None
    train: NotRequired[float | None]
    validation: NotRequired[float | None]
    examples_of_best: NotRequired[int | None]
    test_in_distribution: NotRequired[float | None]
    test_greedy: NotRequired[float | None]
    test_of_last: NotRequired[float | None]


class Result(TypedDict):
    """The entries of `result.json` that are read.

    `files` has the SHA-256 of the run's files that the result was made with, `sha256` that of the result itself. Older
    results have neither.
    """

    config: dict[str, Any]
    seeds: list[SeedRow]
    hardware: str
    parameters: NotRequired[int | None]
    seconds: NotRequired[float | None]
    seconds_of_test: NotRequired[float | None]
    seconds_to_first_step: NotRequired[float | None]
    commit: NotRequired[str | None]
    levels: NotRequired[dict[str, Any] | None]
    files: NotRequired[dict[str, str]]
    sha256: NotRequired[str]


def checksum(content: Mapping[str, Any]) -> str:
    """The SHA-256 of a JSON object without its entry `sha256`. The order of the keys does not matter.

    >>> checksum({"a": 1, "b": 2}) == checksum({"b": 2, "a": 1, "sha256": "..."})
    True
    """
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
