"""Finding, among all that was measured, what belongs into a cell of the paper."""

from collections import defaultdict
from collections.abc import Iterable

from relational_transformer.clrs.classes import ALGORITHMS
from relational_transformer.clrs.feature import ProtocolName

from .cell import Ours
from .departures import departures_of, expected_protocol, other_precision, protocol_of
from .measured import Measured
from .variants import variant_of


class Archive:
    """Results by task and model of the paper.

    Results of one protocol alone are among them: the paper's, with all that departs from it, or the modern one's. Where
    several would fit a cell, the one under that protocol and its settings is taken, else the one that trained longest,
    then the one with most seeds.

    >>> Archive([]).find("bfs", "rt") is None  # nothing was measured
    True
    """

    def __init__(self, results: Iterable[Measured], protocol: ProtocolName = "paper") -> None:
        self.all = tuple(results)
        self.results = tuple(result for result in self.all if protocol_of(result) == protocol)
        self._by_cell: dict[tuple[str, str], list[Measured]] = defaultdict(list)
        for result in self.results:
            self._by_cell[result.task, variant_named(result)].append(result)

    def of(self, task: str, variant: str, train_examples: int | None = None) -> list[Measured]:
        """Results of a model on a task, the one nearest to the paper's first."""
        found = self._by_cell.get((task, variant), [])
        if variant.startswith("untuned_"):  # trained on both sizes by the paper: never one for the other
            size = expected_protocol(variant, train_examples).train_examples
            found = [result for result in found if result.config["protocol"].get("train_examples") == size]
        return sorted(found, key=_distance)

    def variants(self, task: str) -> list[str]:
        """The models of which there are results on a task."""
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
    different = departures_of(result)
    notes = (", ".join(different),) if different else ()
    notes += other_precision(result) + _of_kernels(result) + _of_failures(result)
    return Ours(result.estimate, len(result.failed), notes, comparable=not different)


def _of_kernels(result: Measured) -> tuple[str, ...]:
    if result.fused is None:
        return ()
    return ("with fused kernels",) if result.fused else ("without fused kernels",)


def _of_failures(result: Measured) -> tuple[str, ...]:
    if not result.failed or not result.scores:
        return ()
    return (f"{len(result.failed)} of {len(result.failed) + len(result.scores)} seeds failed: mean of the others",)


def variant_named(result: Measured) -> str:
    """The model of the paper that a result is of."""
    return variant_of(result.model, result.config["settings"]) if is_clrs(result) else result.model


def is_clrs(result: Measured) -> bool:
    """Whether a result is of the CLRS-30 experiments."""
    return result.task in ALGORITHMS


def _distance(result: Measured) -> tuple[bool, int, int]:
    length = result.config.get("protocol", {}).get("examples") or result.config.get("recipe", {}).get("steps", 0)
    return bool(departures_of(result)), -length, -len(result.scores)
