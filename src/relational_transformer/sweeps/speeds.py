"""How long runs will take, judged by those that have ended."""

from collections import defaultdict
from collections.abc import Iterable

from relational_transformer.training.run_folder import RunFolder

from .run import Run


class Speeds:
    """Operations a second of runs that have ended, by model."""

    def __init__(self, runs: Iterable[Run]) -> None:
        """Learns from those of the runs that have their results."""
        made: dict[str, float] = defaultdict(float)
        taken: dict[str, float] = defaultdict(float)
        for run in runs:
            result = RunFolder(run.folder).read_result()
            if result is not None:
                made[run.config.model] += run.flop
                taken[run.config.model] += result["seconds"] + result["seconds_of_test"]
        self._by_model = {model: made[model] / taken[model] for model in made if taken[model] > 0}
        self._overall = sum(made.values()) / sum(taken.values()) if sum(taken.values()) > 0 else None

    def seconds_left(self, run: Run) -> float | None:
        """What is left of a run, in seconds of one slot; None as long as no run at all has ended.

        A model that has not been run is taken to be as fast as the others were, which is rough.
        """
        speed = self._by_model.get(run.config.model, self._overall)
        return None if speed is None else run.flop * (1.0 - run.share_done) / speed
