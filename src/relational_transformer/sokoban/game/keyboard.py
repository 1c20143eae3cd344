"""Single keys from the terminal, without waiting for Enter."""

import os
import re
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

ARROWS = {b"A": "up", b"B": "down", b"C": "right", b"D": "left"}
KEY = re.compile(rb"\x1b[\[O]([0-9;]*[@-~])|.", re.DOTALL)
"""One key: an escape sequence, which arrows send in both modes of a terminal, or one byte."""


@contextmanager
def keys() -> Iterator[Iterator[str]]:
    """Iterate over pressed keys by name (`up`, `q`). Afterwards the terminal is restored. Ctrl-C works as usual."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield _read(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _read(descriptor: int) -> Iterator[str]:
    while True:
        pressed = os.read(descriptor, 1024)  # all waiting input: keys may come faster than they are read
        if not pressed:
            yield "q"  # the end of the input
        for key in KEY.finditer(pressed):
            yield ARROWS.get(key[1] or b"") or key[0][:1].decode("ascii", "replace").lower()
