"""Several benchmarks that get ready at the same time and measure one after another."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(path: Path | None) -> Iterator[None]:
    """Say that all is ready, wait until no other process locks the file, and keep it locked. Without a file, go on."""
    if path is None:
        yield
        return
    print("ready to measure", flush=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
