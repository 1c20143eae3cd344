"""How long runs will take, judged by those that have ended."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from relational_transformer.runs.run_folder import RunFolder

from .run import Run


class Speeds:
    """Operations a second of runs that have ended, by kind and model: the GAT of lobsters is not that of CLRS-30."""

    def __init__(self, runs: Iterable[Run]) -> None:
        """Learns from those of the runs that have their results."""
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
        """What is left of a run, in seconds of one slot; None as long as no run at all has ended.

        A model that has not been run is taken to be as fast as the others were, which is rough.
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
