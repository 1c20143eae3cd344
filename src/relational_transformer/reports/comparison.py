"""Ours beside the paper's: a Markdown table."""

from collections.abc import Iterable, Mapping
from typing import Any

from relational_transformer.clrs.classes import TITLES
from relational_transformer.processors.settings import ABLATIONS, TUNED
from relational_transformer.training.protocol import PROTOCOLS

from .measured import Measured
from .paper import published

HEADER = (
    "| task | model | seeds | ours | paper (20 seeds) | difference | within ± 2 s.d. |\n|---|---|---|---|---|---|---|\n"
)


def compare(results: Iterable[Measured]) -> str:
    """One row a task and model, test scores in percent: mean ± standard deviation over seeds.

    "Within" says whether our mean lies inside the paper's mean ± 2 of its standard deviations. Runs under another
    protocol, or of a model with other settings, than the paper's are marked with what differs and not judged.
    """
    rows = sorted(results, key=lambda result: (result.task, result.model, str(result.config)))
    return HEADER + "".join(_row(result) for result in rows)


def _row(result: Measured) -> str:
    paper = published(result.task, result.model)
    note = _departures(result)
    theirs = difference = inside = "-"
    if not result.scores:
        ours = "all seeds failed"
    else:
        ours = f"{result.mean:.2f}" + (f" ± {result.deviation:.2f}" if result.deviation is not None else "")
    if paper is not None:
        theirs = f"{paper.mean:.2f}" + (f" ± {paper.deviation:.1f}" if paper.deviation is not None else "")
        if result.scores:
            gap = result.mean - paper.mean
            difference = f"{gap:+.2f}"
            if paper.deviation is not None and not note:
                inside = "yes" if abs(gap) <= 2 * paper.deviation else "**no**"
    seeds = f"{len(result.scores)}" + (f" (+ {len(result.failed)} failed)" if result.failed else "")
    cells = (TITLES.get(result.task, result.task) + note, result.model, seeds, ours, theirs, difference, inside)
    return f"| {' | '.join(cells)} |\n"


def _departures(result: Measured) -> str:
    """What a run has in its protocol or its model that the paper's has not."""
    changed = _changes(result.config["protocol"], vars(PROTOCOLS["paper"]))
    known = {**TUNED, **ABLATIONS}.get(result.model)
    if known is not None:
        changed += _changes(result.config["settings"], vars(known))
    return f" ({', '.join(changed)})".replace("_", " ") if changed else ""


def _changes(ours: Mapping[str, Any], usual: Mapping[str, Any]) -> list[str]:
    def plain(value: Any) -> Any:
        return list(value) if isinstance(value, tuple) else value

    different = {name: value for name, value in ours.items() if plain(usual.get(name)) != plain(value)}
    return [f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}" for name, value in different.items()]
