"""All assaults, for longer than the tests: `python -m tests.fuzz --tries 20000 --seed 0` (`make fuzz`).

The tries are spread over the assaults. What came of them is counted; the exit status is 1 if one was not accepted or
refused. Any can be tried again with `--only NAME` and the same `--tries` and `--seed`.
"""

import argparse
import importlib
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

from tests.fuzz.hang import Hang, no_longer_than
from tests.fuzz.outcome import Kind, Outcome

Assault = Callable[[int, int, Path], Iterator[Outcome]]

NAMES = ("api", "saved_models", "journals", "run_files", "command_line")
TRIES_AT_ONCE = 1000
"""After so many an assault begins anew, with a seed of its own; after one that hangs it does so at once."""
MOST_SECONDS = 600
SECONDS_BETWEEN_REPORTS = 30.0
MOST_TOLD = 20


def main() -> int:
    """Carry out the assaults and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--tries", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=NAMES)
    arguments = parser.parse_args()
    assaults = {name: assault for name, assault in _find_assaults().items() if arguments.only in (None, name)}
    defects: list[tuple[str, Outcome]] = []
    counts: dict[str, Counter[Kind]] = {}
    for name, assault in assaults.items():
        counts[name] = Counter()
        reported = time.monotonic()
        tries = arguments.tries if arguments.only else arguments.tries // len(assaults)
        for number, outcome in enumerate(all_tries(assault, tries, arguments.seed), 1):
            counts[name][outcome.kind] += 1
            defects += [(name, outcome)] if outcome.is_defect else []
            if time.monotonic() - reported > SECONDS_BETWEEN_REPORTS or number == tries:
                print(f"{name}: {number:,} of {tries:,}", flush=True)
                reported = time.monotonic()
    print(_table(counts))
    for name, outcome in defects[:MOST_TOLD]:
        print(f"{name}: {outcome.kind}: {outcome.attempt}\n    {outcome.detail[:500]}")
    return 1 if defects else 0


def all_tries(assault: Assault, tries: int, seed: int) -> Iterator[Outcome]:
    """So many outcomes of an assault, each in bounded time."""
    made = 0
    for begun in itertools.count():
        if made == tries:
            return
        with tempfile.TemporaryDirectory() as folder:
            attempts = assault(min(TRIES_AT_ONCE, tries - made), seed + 1_000_000 * begun, Path(folder))
            while True:
                try:
                    with no_longer_than(MOST_SECONDS):
                        outcome = next(attempts, None)
                except Hang as hang:
                    outcome = Outcome(f"the one after {made} (seed {seed + 1_000_000 * begun})", "hang", str(hang))
                    attempts = iter(())
                if outcome is None:
                    break
                made += 1
                yield outcome


def _find_assaults() -> dict[str, Assault]:
    """By name; one whose packages are not installed is named and left out."""
    found: dict[str, Assault] = {}
    for name in NAMES:
        try:
            found[name] = importlib.import_module(f"tests.fuzz.{name}").assault
        except ModuleNotFoundError as error:
            if str(error.name).partition(".")[0] in ("relational_transformer", "tests"):
                raise  # it has moved, and the assault does not know
            print(f"{name} is left out: {error}", file=sys.stderr)
    return found


def _table(counts: dict[str, Counter[Kind]]) -> str:
    rows = [("", *get_args(Kind))]
    rows += [(name, *(f"{count[kind]:,}" for kind in get_args(Kind))) for name, count in counts.items()]
    return "\n".join("  ".join(f"{cell:>17}" for cell in row) for row in rows)


if __name__ == "__main__":
    sys.exit(main())
