"""A lock on a journal file that ends with the process that holds it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relational_transformer.reading import open_regular


@contextmanager
def locked(path: Path, *, writing: bool) -> Iterator[int]:
    """Lock an existing journal and return its descriptor: for one thread of one process with `writing`, else for any
    number of readers.

    Optuna's own locks are files, which remain when their owner is killed. Waiting processes remove such a file after
    30 seconds; if two do so at once, each removes the other's lock, and one of them fails. The operating system
    releases its lock as soon as the owner ends.

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
