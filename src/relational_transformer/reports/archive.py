"""Finding, among all that was measured, what belongs into a cell of the paper."""

from collections import defaultdict
from collections.abc import Iterable

from relational_transformer.clrs.classes import ALGORITHMS

from .cell import Ours
from .measured import Measured
from .variants import PAPER_PRECISION, departures, expected_protocol, variant_of


class Archive:
    """Results by task and model of the paper.

    Where several results would fit a cell, the one under the paper's protocol and settings is taken, else the one that
    trained on most examples, then the one with most seeds.
    """

    def __init__(self, results: Iterable[Measured]) -> None:
        self.results = tuple(results)
        self._by_cell: dict[tuple[str, str], list[Measured]] = defaultdict(list)
        for result in self.results:
            if is_clrs(result):
                self._by_cell[result.task, variant_of(result.model, result.config["settings"])].append(result)

    def of(self, task: str, variant: str, train_examples: int | None = None) -> list[Measured]:
        """Results of a model on a CLRS-30 task, the one nearest to the paper's first."""
        found = self._by_cell.get((task, variant), [])
        if variant.startswith("untuned_"):  # trained on both sizes by the paper: never one for the other
            size = expected_protocol(variant, train_examples).train_examples
            found = [result for result in found if result.config["protocol"]["train_examples"] == size]
        return sorted(found, key=lambda result: _distance(result, variant))

    def variants(self, task: str) -> list[str]:
        """The models of which there are results on a CLRS-30 task."""
        return sorted(variant for one, variant in self._by_cell if one == task)

    def find(self, task: str, variant: str, train_examples: int | None = None) -> Ours | None:
        """What was measured for a cell; None where nothing was. PGN-c is the better of PGN-u and PGN-m."""
        if variant.endswith("pgn_combined"):
            return self._better(task, variant.removesuffix("_combined"), train_examples)
        found = self.of(task, variant, train_examples)
        return ours_of(found[0]) if found else None

    def _better(self, task: str, unmasked: str, train_examples: int | None) -> Ours | None:
        both = [self.find(task, name, train_examples) for name in (unmasked, f"{unmasked}_masked")]
        there = [(one.estimate.mean, number) for number, one in enumerate(both) if one is not None and one.estimate]
        return both[max(there)[1]] if len(there) == 2 else None


def ours_of(result: Measured) -> Ours:
    """A result as a cell shows it, with what sets it apart from the paper's."""
    variant = variant_of(result.model, result.config["settings"])
    different = _departures(result, variant)
    precision = result.config.get("precision", "fp32")
    notes = [", ".join(different)] if different else []
    notes += [f"precision {precision}"] if precision not in PAPER_PRECISION else []
    return Ours(result.estimate, len(result.failed), tuple(notes), comparable=not different)


def is_clrs(result: Measured) -> bool:
    """Whether a result is of the CLRS-30 experiments."""
    return result.task in ALGORITHMS


def _departures(result: Measured, variant: str) -> tuple[str, ...]:
    protocol = expected_protocol(variant, result.config["protocol"].get("train_examples"))
    return departures(result.config, variant, protocol)


def _distance(result: Measured, variant: str) -> tuple[bool, int, int]:
    examples = result.config["protocol"].get("examples", 0)
    return bool(_departures(result, variant)), -examples, -len(result.scores)
