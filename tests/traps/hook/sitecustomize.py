"""Python imports this when a process starts that is watched: it springs the traps that tests have laid.

It hears of every operation on a file just before it happens, through an audit hook, so that nothing is patched.
"""

import json
import os
import select
import signal
import sys
import threading
from typing import Any

OPERATIONS = {"open": 1, "os.chmod": 1, "os.mkdir": 1, "os.remove": 1, "os.rename": 2}
"""What Python says of an operation on files, and how many paths come first."""
FOLDER = os.environ["RT_TRAPS"]

known: dict[str, dict[str, Any]] = {}
"""Traps that were seen, by name; each counts the operations of this process on its target."""
here = threading.local()


def watch(event: str, given: tuple[Any, ...]) -> None:
    if event in OPERATIONS and not getattr(here, "is_looking", False):
        here.is_looking = True  # what this thread does in here is not watched, and what others do meanwhile is
        try:
            look_at_traps(event, [os.path.abspath(one) for one in given[: OPERATIONS[event]] if isinstance(one, str)])
        finally:
            here.is_looking = False


def look_at_traps(event: str, paths: list[str]) -> None:
    for name in sorted(os.listdir(FOLDER)):
        if not name.endswith(".trap"):
            continue
        try:
            trap = known.get(name) or known.setdefault(name, {**read(name), "count": 0})
        except FileNotFoundError:  # another process has sprung it since
            continue
        if trap["only_replacements"] and (event != "os.rename" or paths[-1:] != [trap["target"]]):
            continue
        if any(is_of(path, trap["target"]) for path in paths):
            trap["count"] += 1
            if trap["count"] == trap["number"]:
                spring(os.path.join(FOLDER, name), trap["signal"])


def read(name: str) -> dict[str, Any]:
    with open(os.path.join(FOLDER, name)) as file:
        return json.load(file)


def is_of(path: str, target: str) -> bool:
    """Whether a path is the target, or a file that is to take its place."""
    folder, name = os.path.split(path)
    return os.path.join(folder, name.lstrip("."))[: len(target)] == target


def spring(trap: str, number: int | None) -> None:
    """Send this process a signal, or wait for one or for the release; nothing if another process came first."""
    sprung = f"{trap}.sprung"
    if number is not None:
        if is_mine(trap, sprung):
            os.kill(os.getpid(), number)
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer)  # before the test can see that it is sprung, so that no signal is missed
    if is_mine(trap, sprung):
        while os.path.exists(sprung) and not select.select([reader], [], [], 0.01)[0]:
            pass
    signal.set_wakeup_fd(before)
    os.close(reader)
    os.close(writer)


def is_mine(trap: str, sprung: str) -> bool:
    try:
        os.rename(trap, sprung)
    except FileNotFoundError:
        return False
    return True


sys.addaudithook(watch)
