"""Estimates of the time that runs will take, from those that have ended."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from relational_transformer.runs.run_folder import RunFolder

from .run import Run


class Speeds:
    """Operations per second of finished runs, by kind of task and model."""

    def __init__(self, runs: Iterable[Run]) -> None:
        """Only runs with a result are used."""
        made: dict[tuple[str, str], float] = defaultdict(float)
        taken: dict[tuple[str, str], float] = defaultdict(float)
        for run in runs:
            result = RunFolder(run.folder).read_result()
            if result is not None:
                made[_key(run)] += run.flop
                taken[_key(run)] += _seconds(run, result)
        self._by_model = {key: made[key] / taken[key] for key in made if taken[key] > 0}
        self._overall = sum(made.values()) / sum(taken.values()) if sum(taken.values()) > 0 else None

    def seconds_left(self, run: Run) -> float | None:
        """The seconds that the rest of a run will take in one slot; None while no run has ended.

        For a model without a finished run, the mean speed of all others is a rough estimate.
        """
        speed = self._by_model.get(_key(run), self._overall)
        return None if speed is None else run.flop * (1.0 - run.share_done) / speed


def _seconds(run: Run, result: dict[str, Any]) -> float:
    try:
        return result["seconds"] + result["seconds_of_test"]
    except (KeyError, TypeError):
        path = RunFolder(run.folder).result
        raise ValueError(f"{path} does not say how long the run took; delete it to test the run again") from None


def _key(run: Run) -> tuple[str, str]:
    return run.kind, run.config.model
