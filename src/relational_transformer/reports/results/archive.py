"""Finds the result that belongs to a cell of a paper's table."""

from collections import defaultdict
from collections.abc import Iterable

from relational_transformer.clrs.classes import ALGORITHMS
from relational_transformer.clrs.feature import ProtocolName

from .cell import Ours
from .departures import departures_of, expected_protocol, other_precision, protocol_of
from .measured import Measured
from .variants import variant_of, with_options


class Archive:
    """Results by task and model of the paper.

    All results have one protocol: the paper's, including departures from it, or the modern one. If several fit a cell,
    the one with exactly that protocol and its settings is taken, else the one that trained longest, then the one with
    most seeds.

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
        """The results of a model on a task, the nearest to the paper's first."""
        found = self._by_cell.get((task, variant), [])
        if variant.startswith("untuned_"):  # trained on both sizes by the paper: never one for the other
            size = expected_protocol(variant, train_examples).train_examples
            found = [result for result in found if result.config["protocol"].get("train_examples") == size]
        return sorted(found, key=_distance)

    def variants(self, task: str) -> list[str]:
        """The models with results on a task."""
        return sorted(variant for one, variant in self._by_cell if one == task)

    def find(self, task: str, variant: str, train_examples: int | None = None) -> Ours | None:
        """The result for a cell; None if there is none. PGN-c is the better of PGN-u and PGN-m."""
        if variant.endswith("pgn_combined"):
            return self._better(task, variant.removesuffix("_combined"), train_examples)
        found = self.of(task, variant, train_examples)
        return ours_of(found[0]) if found else None

    def _better(self, task: str, unmasked: str, train_examples: int | None) -> Ours | None:
        both = [self.find(task, name, train_examples) for name in (unmasked, f"{unmasked}_masked")]
        there = [(one.estimate.mean, number) for number, one in enumerate(both) if one is not None and one.estimate]
        return both[max(there)[1]] if len(there) == 2 else None


def ours_of(result: Measured) -> Ours:
    """A result for a cell, with its departures from the paper."""
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
    """The model of the paper to which a result belongs; one with an option that the paper does not have is its own."""
    settings = result.config["settings"]
    return variant_of(result.model, settings) if is_clrs(result) else with_options(result.model, settings)


def is_clrs(result: Measured) -> bool:
    """Whether a result belongs to CLRS-30."""
    return result.task in ALGORITHMS


def _distance(result: Measured) -> tuple[bool, int, int]:
    length = result.config.get("protocol", {}).get("examples") or result.config.get("recipe", {}).get("steps", 0)
    return bool(departures_of(result)), -length, -len(result.scores)
