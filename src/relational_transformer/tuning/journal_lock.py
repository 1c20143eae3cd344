"""A lock on a journal file that ends with the process that holds it."""

import fcntl
import threading
from io import BufferedWriter
from pathlib import Path


class JournalLock:
    """Lets one process, and one thread of it, write to a journal at a time.

    Optuna's own locks are files, which stay behind when their owner is killed. Those who wait for one remove it after
    30 seconds; two that do so together remove each other's, and one of them fails. The operating system's lock is free
    as soon as its owner is gone.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     lock = JournalLock(Path(folder) / "study.journal")
    ...     lock.acquire()
    ...     lock.release()
    True
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held = threading.local()

    def acquire(self) -> bool:
        """Wait for the lock."""
        file = self._path.open("ab")
        fcntl.flock(file, fcntl.LOCK_EX)
        self._held.file = file
        return True

    def release(self) -> None:
        file: BufferedWriter = self._held.file
        fcntl.flock(file, fcntl.LOCK_UN)  # closing alone would leave it to a process that was forked meanwhile
        file.close()
