"""The paper's own numbers, from one data file."""

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Published:
    """Mean test score and its standard deviation over seeds, in percent."""

    mean: float
    deviation: float | None
    seeds: int


@cache
def numbers() -> dict[str, Any]:
    """The contents of `paper.json`."""
    return json.loads(resources.files("relational_transformer.reports").joinpath("paper.json").read_text())


def published(task: str, model: str) -> Published | None:
    """What the main table of the paper says of a model on a task; None where it says nothing.

    >>> published("bellman_ford", "rt")
    Published(mean=94.24, deviation=1.5, seeds=20)
    """
    main = numbers()["main"]
    mean = main["mean"].get(task, {}).get(model)
    if mean is None:
        return None
    return Published(mean, main["deviation"][task].get(model), main["seeds"])
