"""A journal file that several processes write at once. Lost and doubled lines are detected."""

import os
import secrets
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from optuna.storages.journal import BaseJournalBackend

from relational_transformer.files import remove_abandoned
from relational_transformer.reading import MOST_BYTES, UnreadableFile

from .journal_format import FIRST_LINE_BYTES, Chain, FirstLine, parse_record
from .journal_lock import locked

ADVICE = "use an earlier copy of it, or begin a new search in another file"


class Journal(BaseJournalBackend):
    """The file of Optuna's `JournalStorage`, in the format of `journal_format`. It must exist: `create_journal`
    makes one. With `writing=False` nothing is written to it.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "study.journal"
    ...     create_journal(path)
    ...     Journal(path).append_logs([{"op_code": 1, "worker_id": "", "study_id": 7}])
    ...     [record["study_id"] for record in Journal(path, writing=False).read_logs(0)]
    [-1, 7]
    """

    def __init__(self, path: Path, *, writing: bool = True) -> None:
        self._path = path
        self._writing = writing
        self._ends = [0]  # of every line read so far, after a leading 0
        self._chain = Chain()

    def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
        with locked(self._path, writing=False) as descriptor:
            self._catch_up(descriptor)
            lines = _read(descriptor, self._ends[log_number_from], self._ends[-1]).split(b"\n")
        return [parse_record(line) for line in lines[:-1]]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        if not self._writing:
            raise PermissionError(f"{self._path} was opened for reading only")
        with locked(self._path, writing=True) as descriptor:
            first_line = self._catch_up(descriptor)
            end, chain = self._ends[-1], Chain(self._chain.link)
            # A process that was killed has left an incomplete line; no other process has the lock.
            os.ftruncate(descriptor, end)
            _write(descriptor, end, b"".join(map(chain.seal, logs)))
            os.fsync(descriptor)
            if first_line is not None:
                # After the records: killed in between, the first line promises too little, never too much.
                lines = len(self._ends) - 2 + len(logs)
                _write(descriptor, 0, FirstLine(first_line.journal, lines, chain.link).encode())

    def _catch_up(self, descriptor: int) -> FirstLine | None:
        """Check what was written since the last time, to the end of the last complete line."""
        size = os.fstat(descriptor).st_size
        if size == 0:
            raise UnreadableFile(f"{self._path} is empty: remove it to begin a new search there")
        if size > MOST_BYTES:
            raise UnreadableFile(f"{self._path} is too large ({size:,} bytes; a journal has at most {MOST_BYTES:,})")
        first_line = FirstLine.decode(_read(descriptor, 0, FIRST_LINE_BYTES))
        for line in _read(descriptor, self._ends[-1], size).split(b"\n")[:-1]:
            self._go_on(line + b"\n", first_line)
        if len(self._ends) == 1:
            raise UnreadableFile(f"{self._path} is not the journal of a search: it has no complete line")
        if size < self._ends[-1] or (first_line is not None and len(self._ends) - 2 < first_line.lines):
            raise UnreadableFile(f"{self._path} is damaged (its last lines are missing); {ADVICE}")
        return first_line

    def _go_on(self, line: bytes, first_line: FirstLine | None) -> None:
        number = len(self._ends)
        try:
            parse_record(line)
            if number == 1 and first_line is not None:
                self._chain.link = first_line.journal
            else:
                self._chain.follow(line)
            if first_line is not None and number - 1 == first_line.lines and self._chain.link != first_line.link:
                raise ValueError("it is not what the first line says")
        except ValueError as error:
            raise UnreadableFile(
                f"{self._path} is not the journal of a search, or is damaged (line {number}: {error}); {ADVICE}"
            ) from None
        self._ends.append(self._ends[-1] + len(line))


def create_journal(path: Path) -> None:
    """Make a journal without records, unless the file exists. An empty file is never visible."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(path):
        return
    journal = secrets.token_hex(16)
    content = FirstLine(journal, 0, journal).encode()
    remove_abandoned(path.parent)  # which knows this kind of name
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.{journal[:8]}.writing")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            with path.open("xb") as file:
                file.write(content)
    except FileExistsError:  # another worker was faster
        return
    finally:
        temporary.unlink(missing_ok=True)


def _read(descriptor: int, start: int, end: int) -> bytes:
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(start)
        return file.read(max(end - start, 0))


def _write(descriptor: int, start: int, content: bytes) -> None:
    while content:
        written = os.pwrite(descriptor, content, start)
        start, content = start + written, content[written:]
