"""Three ways to kill a run with SIGKILL: by the clock, when something is seen in its folder, at an exact operation."""

import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.torture.tiny_runs import start
from tests.traps.trap import Traps

NAMES = ("config.json", "checkpoint.safetensors", "checkpoint.previous.safetensors", "metrics.jsonl", "result.json")
MOST_OPERATIONS = 60
"""Among which the last one of an exact kill is; a checkpoint with its metrics takes about a dozen."""


def by_the_clock(task: str, out: Path, chance: random.Random, seconds: float) -> subprocess.Popen[str]:
    """At any moment of the seconds that a whole run takes, often while it starts."""
    process = start(task, out)
    moment = time.monotonic() + chance.uniform(0.0, seconds)
    _wait(process, lambda: time.monotonic() >= moment)
    return process


def when_seen(task: str, out: Path, chance: random.Random, seconds: float) -> subprocess.Popen[str]:
    """Soon after a file has changed, or while one is being written."""
    name, pause = chance.choice((*NAMES, "*.writing")), chance.choice((0.0, chance.uniform(0.0, 0.1)))
    before = _state(out, name)
    process = start(task, out)
    _wait(process, lambda: _state(out, name) != before)
    time.sleep(pause)
    return process


def at_an_operation(task: str, out: Path, chance: random.Random, seconds: float) -> subprocess.Popen[str]:
    """Just before an operation on a file, of which a save makes several: what is left is what was done until then."""
    traps = Traps(out.parent / f"{out.name}.traps")
    for old in traps.folder.iterdir():
        old.unlink()
    target, number = chance.choice(("", *NAMES)), chance.randint(1, MOST_OPERATIONS)
    traps.lay(out / target, number, signal.SIGKILL, only_replacements=False)
    process = start(task, out, traps.environment)
    _wait(process, lambda: False)
    return process


WAYS: dict[str, Callable[[str, Path, random.Random, float], subprocess.Popen[str]]] = {
    "clock": by_the_clock,
    "seen": when_seen,
    "exact": at_an_operation,
}


def _wait(process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    while process.poll() is None and not condition():
        time.sleep(0.001)


def _state(out: Path, pattern: str) -> set[tuple[str, int, int]]:
    found = set()
    for path in out.glob(pattern):
        try:
            status = path.stat()
        except FileNotFoundError:  # it has just been replaced
            continue
        found.add((path.name, status.st_ino, status.st_mtime_ns))
    return found
