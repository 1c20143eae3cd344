"""Tiny runs of all tasks, killed again and again: `python -m tests.torture --kills 100 --seed 0`.

Each run goes on after every kill with the same command, and must end with the bits of one that nothing disturbed.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.torture.kills import WAYS
from tests.torture.tiny_runs import COMMANDS, differences, start, train

MOST_KILLS_OF_A_RUN = 8


@dataclass
class Tally:
    """What became of the runs of a task."""

    kills: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    failures: list[str] = field(default_factory=list)


def torture(task: str, kills: int, seed: int, folder: Path) -> Tally:
    """Kill runs of a task so often, and compare each of them with one that nothing disturbed."""
    chance, tally, expected = random.Random(f"{task} {seed}"), Tally(), folder / f"{task}-undisturbed"
    began = time.monotonic()
    train(task, expected)
    seconds = time.monotonic() - began
    while tally.kills.total() < kills:
        out = folder / f"{task}-{tally.compared}"
        most = min(kills - tally.kills.total(), chance.randint(1, MOST_KILLS_OF_A_RUN))
        failures = kill_and_go_on(task, out, most, chance, seconds, tally.kills) or differences(out, expected)
        tally.compared += 1
        tally.failures += [f"{out}: {failure}" for failure in failures]
        print(f"{task}: {tally.kills.total()} of {kills} kills, {'; '.join(failures) or 'same bits'}", flush=True)
    return tally


def kill_and_go_on(
    task: str, out: Path, most: int, chance: random.Random, seconds: float, kills: Counter[str]
) -> list[str]:
    """Kill a run some times unless it ends before, then let it end. Returns what went wrong."""
    for way in chance.choices(list(WAYS), k=most):
        process = WAYS[way](task, out, chance, seconds)
        process.kill()
        _, errors = process.communicate()
        if process.returncode >= 0:
            return [] if process.returncode == 0 else [f"it ended with {process.returncode}: {errors}"]
        kills[way] += 1
    process = start(task, out)
    _, errors = process.communicate()
    return [] if process.returncode == 0 else [f"it ended with {process.returncode}: {errors}"]


def show(tallies: dict[str, Tally]) -> None:
    print(f"\n{'task':<10}{'kills':>7}{''.join(f'{way:>8}' for way in WAYS)}{'runs compared':>16}{'differences':>14}")
    for task, tally in tallies.items():
        ways = "".join(f"{tally.kills[way]:>8}" for way in WAYS)
        print(f"{task:<10}{tally.kills.total():>7}{ways}{tally.compared:>16}{len(tally.failures):>14}")
    for tally in tallies.values():
        for failure in tally.failures:
            print(failure)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="shared out among the tasks")
    parser.add_argument("--seed", type=int, default=0, help="of the ways and moments of the kills")
    given = parser.parse_args(arguments)
    tasks = list(COMMANDS)
    with tempfile.TemporaryDirectory(prefix="rt-torture-") as folder:
        tallies = {
            task: torture(task, len(range(number, given.kills, len(tasks))), given.seed, Path(folder))
            for number, task in enumerate(tasks)
        }
    show(tallies)
    return 1 if any(tally.failures for tally in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
