"""Single keys from the terminal, without waiting for Enter."""

import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

ARROWS = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1b[C": "right", b"\x1b[D": "left"}


@contextmanager
def keys() -> Iterator[Iterator[str]]:
    """Key after key, by name (`up`, `q`); the terminal is put back as it was at the end. Ctrl-C works as ever."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield _read(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _read(descriptor: int) -> Iterator[str]:
    while True:
        pressed = os.read(descriptor, 3)
        if not pressed:
            yield "q"  # the end of the input
        yield ARROWS.get(pressed) or pressed[:1].decode("ascii", "replace").lower()
