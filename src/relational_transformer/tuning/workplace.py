"""The folder of a worker on its machine. It is locked while the worker lives, so that others can detect its death."""

import fcntl
import os
import secrets
import shutil
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple, TypedDict

from relational_transformer.reading import check

ATTRIBUTE = "workplace"
"""The attribute of a trial that holds the claim of its worker."""
PREFIX = "rt-tune-"
LOCK = "worker.lock"


class Claim(TypedDict):
    """Where the worker of a trial is. The token is also in the lock file."""

    machine: str
    folder: str
    token: str


class Workplace(NamedTuple):
    folder: Path
    claim: Claim


@contextmanager
def workplace() -> Iterator[Workplace]:
    """A temporary folder for the runs of this process, removed at the end.

    >>> with workplace() as here, abandoned(here.claim) as folder:
    ...     print(folder)
    None
    """
    folder, token = Path(mkdtemp(prefix=PREFIX)), secrets.token_hex(16)
    try:
        with (folder / LOCK).open("x") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(token)
            file.flush()
            yield Workplace(folder, {"machine": socket.gethostname(), "folder": str(folder), "token": token})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def abandoned(claim: Any) -> Iterator[Path | None]:
    """The folder of a worker that is certainly dead, locked meanwhile; None where the worker lives or is unknown.

    A claim comes from a storage, so it is not trusted. A folder counts only if it belongs to this user, has the name of
    a worker's folder, is no link, and holds a lock with the token of the claim.
    """
    try:
        check(claim, Claim)
    except ValueError:
        yield None
        return
    folder = Path(claim["folder"])
    descriptor = None
    if claim["machine"] == socket.gethostname() and folder.is_absolute() and folder.name.startswith(PREFIX):
        with suppress(OSError, ValueError):
            descriptor = _take(folder, claim["token"])
    try:
        yield None if descriptor is None else folder
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _take(folder: Path, token: str) -> int:
    """Lock a folder and return the lock's descriptor; OSError where it is locked or not a worker's folder."""
    kind = folder.lstat()
    if not stat.S_ISDIR(kind.st_mode) or kind.st_uid != os.getuid():
        raise OSError(f"{folder} is no folder of ours")
    descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or os.read(descriptor, 1000) != token.encode():
            raise OSError(f"{folder} is another's")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
