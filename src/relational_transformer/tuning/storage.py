"""Where a study lives: a journal file, or a database for many machines."""

import json
import random
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna import Study
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend

from .journal_lock import JournalLock

ATTEMPTS = 10


def open_storage(location: str) -> BaseStorage:
    """A journal file for a path, a database for an URL: `sqlite:///tuning.db`, `postgresql://user@host/name`.

    What is not there yet is made. Any number of processes may open the same location at the same time.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     storage = open_storage(f"{folder}/tuning.journal")
    ...     print(storage.get_all_studies())
    []
    """
    if "://" not in location:
        return open_journal(Path(location))
    try:
        return open_database(location)
    except ImportError as error:
        driver = getattr(error.__cause__, "name", None) or "of that database"
        raise ValueError(f"{location!r} needs the driver {driver}, which is not installed") from None


def open_journal(path: Path) -> JournalStorage:
    """The journal in a file, in which every line is an entry.

    The beginning of one, left by a worker that was killed while it wrote, is taken out: with what others write after
    it, it would be a line that nobody can read.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = JournalLock(path)
    try:
        lock.acquire()
        try:
            with path.open("rb+") as file:
                file.truncate(_size_of_entries(file.read()))
        finally:
            lock.release()
        return JournalStorage(JournalFileBackend(str(path), lock))  # pyright: ignore[reportArgumentType]
    except ValueError as error:
        raise ValueError(f"{path} is no journal of a search, or is damaged ({error})") from None


def _size_of_entries(content: bytes) -> int:
    """The bytes of a journal to the end of its last whole line."""
    *lines, half = content.split(b"\n")
    for line in [*lines[:1], *lines[-1:]]:
        json.loads(line)
    if not lines and not half.startswith(b"{"[: len(half)]):
        raise ValueError("it has no line")
    return len(content) - len(half)


def open_database(url: str) -> RDBStorage:
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    if url.startswith("sqlite"):
        engine: dict[str, Any] = {"connect_args": {"timeout": 60}}  # seconds to wait for another process to write
    else:
        engine = {"pool_pre_ping": True}  # a training run is long enough for a server to drop the connection
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return RDBStorage(url, engine_kwargs=engine)
        except SQLAlchemyError as error:
            # Processes that open a new database together all try to create its tables; all but one fail, and find them
            # made at the next attempt.
            if attempt == ATTEMPTS or not isinstance(error, DBAPIError):
                where, reason = re.sub(r"//[^@/]*@", "//", url), getattr(error, "orig", None) or error
                raise ValueError(f"no database can be used at {where!r}: {str(reason).splitlines()[0]}") from None
            time.sleep(random.uniform(0.1, 0.5))
    raise AssertionError("unreachable")


def open_study(
    storage: BaseStorage, name: str, protocol: Mapping[str, Any] | None = None, sampler: BaseSampler | None = None
) -> Study:
    """The study called `name`, made if it is not there. Scores are maximised.

    `protocol` says how its trials are run: plain values that JSON can hold. Trials of different protocols cannot be
    compared, so the first worker writes it into the study and those who come later must bring the same.

    >>> storage = optuna.storages.InMemoryStorage()
    >>> study = open_study(storage, "layers", {"examples": 1000})
    >>> open_study(storage, "layers", {"examples": 2000})
    Traceback (most recent call last):
    ValueError: the study 'layers' was begun with examples=1000 (now 2000); give the new search another name
    """
    study = optuna.create_study(
        storage=storage, study_name=name, sampler=sampler, direction="maximize", load_if_exists=True
    )
    wanted: dict[str, Any] = json.loads(json.dumps(protocol or {}))  # as it comes back: lists for tuples
    known: dict[str, Any] = study.user_attrs.get("protocol", wanted)
    if known != wanted:
        differing = [key for key in {**known, **wanted} if known.get(key) != wanted.get(key)]
        raise ValueError(
            f"the study {name!r} was begun with "
            + ", ".join(f"{key}={known.get(key)!r} (now {wanted.get(key)!r})" for key in differing)
            + "; give the new search another name"
        )
    study.set_user_attr("protocol", wanted)
    return study
