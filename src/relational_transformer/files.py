"""Atomic writes: a file is written under a temporary name, then renamed. Needs Python alone."""

import contextlib
import errno
import json
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

CACHE_VARIABLE = "RT_CACHE"


def cache_folder(cache: Path | str | None = None) -> Path:
    """The folder given, or the one in the environment, or the user's cache."""
    if cache is None:
        cache = os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "relational_transformer"
    if not isinstance(cache, str | Path) or "\0" in str(cache):
        raise ValueError(f"The cache is {str(cache)[:80]!r}; it must be the name of a folder.")
    return Path(cache).expanduser()


def write_atomically(
    path: Path, write: Callable[[Path], object], before_replacing: Callable[[], object] = lambda: None
) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in its place.

    A reader sees the old file or the new one, never half of one, and two processes may write the same file at once. The
    new file has the permissions of the old one; a first file has those of the umask. Only a regular file is replaced,
    and no link is followed. `before_replacing` is called when the new file is safe on the disk and the old one still in
    place.
    """
    check_replaceable(path)
    # The machine and the process are in the name, by which `remove_abandoned` recognises files of dead processes.
    writer = f"{socket.gethostname()}.{os.getpid()}.{uuid4().hex[:8]}"
    temporary = path.with_name(f".{path.name}.{writer}.writing")
    try:
        temporary.touch(exist_ok=False)
        mode = (path if path.exists() else temporary).stat().st_mode  # `write` may have replaced the file
        write(temporary)
        temporary.chmod(stat.S_IMODE(mode))
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        before_replacing()
        os.replace(temporary, path)
        _make_durable(path.parent)
    except OSError as error:
        raise OSError(error.errno, f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def check_replaceable(path: Path) -> None:
    """Refuse a path that is something else than a regular file: a link, a folder, a device."""
    try:
        mode = path.lstat().st_mode
    except OSError:  # nothing is there, or writing will raise the error
        return
    if not stat.S_ISREG(mode):
        what = "a link" if stat.S_ISLNK(mode) else "not a regular file"
        raise FileExistsError(errno.EEXIST, f"cannot write {path}: it is {what}; remove it, or write elsewhere")


def remove_unfinished(folder: Path) -> None:
    """Delete all unfinished files, in a folder in which no other process writes."""
    for path in folder.glob(".*.writing"):
        path.unlink(missing_ok=True)


def remove_abandoned(folder: Path) -> None:
    """Delete unfinished files of killed processes of this machine, in a folder in which others may write."""
    for path in folder.glob(f".*.{socket.gethostname()}.*.writing"):
        process = path.name.split(".")[-3]
        if process.isdigit() and not _is_running(int(process)):
            with contextlib.suppress(OSError):
                path.unlink()


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON. Numbers must be finite."""
    write_atomically(path, lambda file: file.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n"))


def write_json_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write one JSON object per line."""
    text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
    write_atomically(path, lambda file: file.write_text(text))


def _make_durable(folder: Path) -> None:
    """Sync the names in a folder to the disk, if its file system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
