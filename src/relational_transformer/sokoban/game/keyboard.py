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
"""One key: an escape sequence, as arrows send it in either mode of the terminal, or one byte."""


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
        pressed = os.read(descriptor, 1024)  # all that waits: keys may come faster than they are asked for
        if not pressed:
            yield "q"  # the end of the input
        for key in KEY.finditer(pressed):
            yield ARROWS.get(key[1] or b"") or key[0][:1].decode("ascii", "replace").lower()
