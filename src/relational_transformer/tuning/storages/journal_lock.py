"""A lock on a journal file that ends with the process that holds it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relational_transformer.reading import open_regular


@contextmanager
def locked(path: Path, *, writing: bool) -> Iterator[int]:
    """The descriptor of a journal that is there: for one process, and one thread of it, where `writing`; else for any
    number of readers. A reader opens it for reading alone.

    Optuna's own locks are files, which stay behind when their owner is killed. Those who wait for one remove it after
    30 seconds; two that do so together remove each other's, and one of them fails. The operating system's lock is free
    as soon as its owner is gone.

    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile() as file, locked(Path(file.name), writing=True) as descriptor:
    ...     os.write(descriptor, b"mine")
    4
    """
    descriptor = open_regular(path, os.O_RDWR if writing else os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if writing else fcntl.LOCK_SH)
        try:
            yield descriptor
        finally:
            # Closing alone would leave it to a process that was forked meanwhile.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)
