"""Reads an SQLite file without writing a byte into it or beside it."""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from relational_transformer.reading import UnreadableFile, open_regular, read_bytes

WAIT_SECONDS = 60
"""Seconds to wait for another process that writes to the same file."""
MOST_BYTES = 4 * 2**30
ATTEMPTS = 100
SIGNATURE = b"SQLite format 3\0"
HEADER_BYTES = 100
WITHOUT_LOG = b"\1\1"
"""The bytes in the header of a database without a write-ahead log."""


def copy_to_memory(path: Path) -> sqlite3.Connection:
    """The content of a database at one moment, even while others write to it. SQLite reads a file without a log
    without writing. If there is the log of a writer, which may have been killed, SQLite writes in order to read, so a
    copy is read.
    """
    header = check_signature(path)
    memory = sqlite3.connect(":memory:", check_same_thread=False)
    logs = [path.with_name(path.name + ending) for ending in ("-wal", "-journal")]
    try:
        if header[18:20] != WITHOUT_LOG or any(map(os.path.lexists, logs)):
            _back_up_copies([path, *logs], memory)
        else:
            _back_up(path, "ro", memory)
        for (answer,) in memory.execute("PRAGMA integrity_check(1)"):
            if answer != "ok":
                raise sqlite3.DatabaseError(answer)
    except sqlite3.Error as error:
        memory.close()
        raise UnreadableFile(f"{path} is a damaged SQLite database ({' '.join(str(error).split())})") from None
    return memory


def check_signature(path: Path) -> bytes:
    """Check the first bytes of an SQLite database. An empty file is valid: SQLite reads it as a database without
    tables."""
    with open(open_regular(path), "rb") as file:
        header = file.read(HEADER_BYTES)
    if header and not (header.startswith(SIGNATURE) and len(header) == HEADER_BYTES):
        raise UnreadableFile(f"{path} is no SQLite database")
    return header


def _back_up(path: Path, mode: str, target: sqlite3.Connection) -> None:
    address = f"file:{quote(str(path.absolute()))}?mode={mode}"
    with closing(sqlite3.connect(address, uri=True, timeout=WAIT_SECONDS)) as source:
        source.execute("SELECT count(*) FROM sqlite_master").fetchall()  # waits for a writer, which a backup does not
        source.backup(target)


def _back_up_copies(files: list[Path], target: sqlite3.Connection) -> None:
    """Read copies of the files that were made while no process changed them. The database is copied first. Its log
    is written before it, so the copied log can undo every incomplete change.
    """
    with TemporaryDirectory(prefix="rt-look-") as folder:
        for _ in range(ATTEMPTS):
            before = [_state(file) for file in files]
            for file in files:
                copy = Path(folder) / file.name
                copy.unlink(missing_ok=True)
                with suppress(FileNotFoundError):
                    copy.write_bytes(read_bytes(file, MOST_BYTES))
            if before == [_state(file) for file in files]:
                return _back_up(Path(folder) / files[0].name, "rw", target)
    raise UnreadableFile(f"{files[0]} is being written to without a pause: try again later")


def _state(file: Path) -> tuple[int, int, int] | None:
    try:
        state = file.stat()
    except FileNotFoundError:
        return None
    return state.st_ino, state.st_size, state.st_mtime_ns
