"""The provenance of the numbers: a row for every run."""

from .archive import Archive, ours_of, variant_named
from .departures import protocol_of
from .measured import Measured
from .variants import title_on

HEADERS = ("task", "model", "seeds", "other than the paper's", "hardware", "hours", "commit")


def describe_runs(archive: Archive) -> tuple[tuple[str, ...], ...]:
    """Rows under `HEADERS`, by task and model."""
    rows = [
        (
            result.task,
            title_on(result.task, variant_named(result)),
            _ranges(run.seeds),
            "; ".join((*_protocol(result), *ours_of(result).notes)) or "-",
            run.hardware,
            "-" if run.seconds is None else f"{run.seconds / 3600:.2f}",
            (run.commit or "-")[:9],
        )
        for result in sorted(archive.all, key=_key)
        for run in result.runs
    ]
    return tuple(rows)


def _protocol(result: Measured) -> tuple[str, ...]:
    return ("modern protocol",) if protocol_of(result) == "modern" else ()


def _key(result: Measured) -> tuple[str, str, str]:
    return result.task, result.model, str(result.config)


def _ranges(seeds: tuple[int, ...]) -> str:
    """Seeds in short.

    >>> _ranges((0, 1, 2, 5))
    '0-2, 5'
    """
    parts: list[list[int]] = []
    for seed in sorted(seeds):
        if parts and parts[-1][-1] == seed - 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in parts)
