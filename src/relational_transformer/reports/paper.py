"""The paper's own numbers, from one data file."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

from relational_transformer.clrs.classes import CLASSES, AlgorithmClass

from .results.estimate import Estimate, average

STEP = 0.1
"""Deviations are printed to one decimal."""


@cache
def numbers() -> dict[str, Any]:
    """The contents of `paper.json`.

    >>> numbers()["main"]["average"]["rt"]
    66.18
    """
    return json.loads(resources.files("relational_transformer.reports").joinpath("paper.json").read_text())


def contradictions(about: str) -> tuple[str, ...]:
    """The contradictions of the paper in the table `about`."""
    return tuple(note["says"] for note in numbers()["contradictions"] if note["about"] == about)


def published(task: str, model: str) -> Estimate | None:
    """The paper's number for a model on a task, in its main table or the table of an ablation; None where there is
    none.

    >>> rt = published("bellman_ford", "rt")
    >>> rt.mean, rt.deviation, rt.seeds
    (94.24, 1.5, 20)
    >>> published("bellman_ford", "rt_single_layer").mean
    93.52
    """
    main = numbers()["main"]
    if model in main["average"]:
        deviation = main["deviation"].get(task, {}).get(model)
        mean = main["mean"].get(task, {}).get(model)
        return None if mean is None else Estimate.printed(mean, deviation, main["seeds"], STEP)
    for ablation in numbers()["ablations"].values():
        if ablation["model"] == model and task in ablation["mean"]:
            return Estimate.printed(ablation["mean"][task], ablation["deviation"][task], ablation["seeds"], STEP)
    return None


def published_average(mean: float, tasks: Sequence[str], model: str) -> Estimate:
    """An average over tasks as the paper prints it, with an error from the printed deviations of the tasks."""
    return _as_printed(mean, [published(task, model) for task in tasks])


def published_class(group: AlgorithmClass, model: str) -> Estimate:
    """The number of the paper's table of classes for a model."""
    return published_average(numbers()["classes"]["mean"][group.value][model], CLASSES[group], model)


def published_class_average(model: str) -> Estimate:
    """The last line of the paper's table of classes."""
    mean = numbers()["classes"]["average"][model]
    return _as_printed(mean, [published_class(group, model) for group in CLASSES])


def _as_printed(mean: float, parts: Sequence[Estimate | None]) -> Estimate:
    known = [part for part in parts if part is not None]
    return replace(average(known), mean=mean, deviation=None)
